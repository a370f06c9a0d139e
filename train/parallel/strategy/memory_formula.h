// Memory formula: what the tensors of one rank take between two steps, by the plan of its step.
#pragma once

#include <string>
#include <vector>

#include "train/parallel/strategy/step_plan.h"

namespace penstock::detail {

/// One kind of tensors: `factor` for each parameter, of which the rank keeps all or one of `slices`.
struct KindFormula {
  std::string kind;         // parameters, gradients, optimizer, average, outer
  int factor = 1;           // tensors per parameter
  int slices = 0;           // 0: the rank keeps all of them
  bool has_frozen = false;  // also of parameters that are not trained

  /// What parameters take of which the rank holds `all_bytes`, `trained_bytes` of them trained.
  double bytes(double all_bytes, double trained_bytes) const;
  std::string text() const;  ///< "2 phi / 3", where phi is the bytes of the parameters.
};

/// ZeRO's (Rajbhandari et al. 2020, "ZeRO", fig. 1, with equal widths for all kinds), here φ for parameters that the
/// rank's stages have:
///
///     parameters   φ      also the frozen ones, which no other kind but `average` has
///     gradients    φ
///     optimizer    K φ    K slots of the optimiser
///     average      φ      with --average alone
///     outer        L φ    L tensors that ranks which take steps alone keep per parameter; without them, no entry
///
/// Divided by the ranks of the data axis where StepPlan::sharded says that each keeps a slice of the kind.
std::vector<KindFormula> memory_formula(const StepPlan& plan, int optimizer_slots, bool keeps_average = false);

/// The sum over the kinds.
double kept_bytes(const std::vector<KindFormula>& kinds, double all_bytes, double trained_bytes);

}  // namespace penstock::detail
