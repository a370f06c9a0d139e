// Memory formula: kinds, and which of them are cut into slices.
#include "train/parallel/strategy/memory_formula.h"

#include <algorithm>

#include "core/text.h"

namespace penstock::detail {

double KindFormula::bytes(double all_bytes, double trained_bytes) const {
  return (has_frozen ? all_bytes : trained_bytes) * factor / std::max(1, slices);
}

std::string KindFormula::text() const {
  return concat(factor == 1 ? "" : concat(factor, " "), "phi", slices > 0 ? concat(" / ", slices) : "");
}

std::vector<KindFormula> memory_formula(const StepPlan& plan, int optimizer_slots, bool keeps_average) {
  const auto slices = [&](bool is_sharded) { return is_sharded ? plan.mesh.data : 0; };
  std::vector<KindFormula> kinds{
      {.kind = "parameters", .slices = slices(plan.sharded.parameters), .has_frozen = true},
      {.kind = "gradients", .slices = slices(plan.sharded.gradients)},
      {.kind = "optimizer", .factor = optimizer_slots, .slices = slices(plan.sharded.optimizer)}};
  if (keeps_average) kinds.push_back({.kind = "average", .has_frozen = true});
  const int outer = plan.local ? plan.local->slots() : 0;
  if (outer > 0) kinds.push_back({.kind = "outer", .factor = outer});
  return kinds;
}

double kept_bytes(const std::vector<KindFormula>& kinds, double all_bytes, double trained_bytes) {
  double bytes = 0;
  for (const auto& kind : kinds) bytes += kind.bytes(all_bytes, trained_bytes);
  return bytes;
}

}  // namespace penstock::detail
