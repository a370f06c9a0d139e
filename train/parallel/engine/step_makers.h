// Step makers: the parts of a step, by its plan.
#pragma once

#include <functional>
#include <memory>

#include "train/parallel/engine/step_runner.h"
#include "train/parallel/replicas/replicas.h"
#include "train/parallel/sharding/sharded_state.h"

namespace penstock::detail {

/// What the mode of a plug-in has in place of parts that its plan describes. Empty: those of the plan.
struct OwnParts {
  std::function<std::shared_ptr<ParameterStore>(const ModelPart& part, Comm& data, Recorder& recorder)> store = {};
  std::function<std::unique_ptr<Update>(const UpdateContext&)> update = {};
  std::function<std::unique_ptr<GradientSync>(const SyncContext&)> sync = {};
  std::function<std::unique_ptr<StepRunner>(const StepParts&, const StrategyContext&)> runner = {};
};

/// The store, the update and the sync of one rank, to be made once each and in this order. Thread-safety: the training
/// thread's alone.
class StepMakers {
 public:
  /// Makes the replicas of the plan, before the model is moved anywhere. `plan` outlives this.
  StepMakers(const StepPlan& plan, OwnParts own, const StrategyContext& context);

  /// Where parameters are while no stage uses them; null: whole at every rank.
  std::shared_ptr<ParameterStore> make_store(const ModelPart& part, Comm& data, Recorder& recorder);
  std::unique_ptr<Update> make_update(const UpdateContext& context);
  std::unique_ptr<GradientSync> make_sync(const SyncContext& context);
  /// A ScheduleRunner; with an emulation whose steps are not real an EmulatedStep in its place.
  std::unique_ptr<StepRunner> make_runner(const StepParts& parts, const StrategyContext& context);

  Replicas* replicas() const { return replicas_.get(); }  ///< Null: none.

 private:
  const StepPlan& plan_;
  OwnParts own_;
  std::shared_ptr<Replicas> replicas_;
  ShardedState sharded_;
  bool shares_parameters_;  // replicas have them in one memory, so that each can update a share
};

}  // namespace penstock::detail
