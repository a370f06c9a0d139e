// Step shape: what a plan means for the blocks and parameters of a model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "train/comm/emulation.h"
#include "train/parallel/plan/machine_costs.h"
#include "train/parallel/strategy/model_facts.h"
#include "train/parallel/strategy/step_plan.h"

namespace penstock::detail {

/// One mode over some ranks, as a user asks for it.
struct PlannedMode {
  StepPlan plan;
  int64_t batch_size = 0;  // over all ranks
  int threads = 1, workers = 0, prefetch = 4;
  int optimizer_slots = 1;
  int64_t evaluated_rows = 0;  // of a rank, in a batch of an evaluation; 0: nothing is evaluated
  Emulation emulation = {};
};

/// What follows from a plan for one model and one size of batches.
struct StepShape {
  StepPlan plan;                        // with its stages; a model that no rank divides is one
  PlacedSchedules placed;               // the operations of the ranks of one copy
  int64_t rows = 0;                     // of a micro-batch
  std::vector<int> synced_layers = {};  // one entry per block: its BatchNorm layers, if they see the rows of all ranks

  bool syncs() const { return !synced_layers.empty(); }
  bool in_lockstep() const { return syncs() || plan.sharded.parameters; }
  /// That ranks take alone before they meet, as far as it counts; 0: they sum every gradient.
  int local_steps() const;
  /// What a pass of this step needs to have measured, where a rank has `threads` threads for all its replicas.
  PassKind pass_kind(int threads) const;
};

/// The bytes of the parameters that the ranks with this place in a pipeline hold.
double held_bytes(const StepShape& shape, int pipe_rank, const std::vector<ParameterFacts>& parameters,
                  bool only_trained);

/// Gradients of such a rank that are summed together: their bytes, and the blocks of which they are.
struct GradientBucket {
  double bytes = 0;
  double sent_bytes = 0, second_bytes = 0;  // what is summed: the bytes, or in one or two rounds what stands for them
  std::vector<size_t> blocks = {};
};
std::vector<GradientBucket> gradient_buckets(const StepShape& shape, int pipe_rank,
                                             const std::vector<ParameterFacts>& parameters);

/// Blocks whose parameters are gathered together by zero(stage=3).
struct ParameterUnit {
  BlockRange blocks;
  double trained_bytes = 0, frozen_bytes = 0;

  double bytes() const { return trained_bytes + frozen_bytes; }
};
/// In other modes a single one, of which nothing is gathered.
std::vector<ParameterUnit> parameter_units(const StepShape& shape, const std::vector<ParameterFacts>& parameters);

/// Why there is no prediction for a mode, or a key of it; empty: there is one.
std::string why_unpredictable(const PlannedMode& planned);

/// None where why_unpredictable() has a reason. With balance=time or memory the parts are those that `costs` give;
/// null: not needed. Throws config_error as the mode does.
std::optional<StepShape> shape_of_step(const PlannedMode& planned, const ModelFacts& model, const MachineCosts* costs);

}  // namespace penstock::detail
