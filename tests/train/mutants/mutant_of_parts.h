// What registers a mutant that is put together from the parts of other modes.
#pragma once

#include <functional>
#include <memory>

#include "train/nn/model.h"
#include "train/parallel/engine/engine.h"
#include "train/parallel/sync/bucket_sync.h"

namespace penstock::detail {

/// A plan, and what computes something else than it says.
struct BrokenMode {
  StepPlan plan;
  OwnParts own = {};
};

/// Registers a mode of copies of the whole model.
inline Registered<StrategyKind> mutant_of_parts(const char* name, const char* help,
                                                const std::function<void(BrokenMode&)>& choose) {
  const auto chosen = [choose](const MeshRequest& request) {
    BrokenMode mutant{.plan = {.sums_gradients = true}};
    mutant.plan.mesh.data = request.ranks > 0 ? request.ranks : request.default_ranks;
    choose(mutant);
    return mutant;
  };
  return {name,
          {},
          help,
          [chosen](const Spec&, const StrategyContext& context) {
            const BrokenMode mutant = chosen(request_of(context));
            return std::make_unique<Engine>(context, mutant.plan, mutant.own);
          },
          {.plan = [chosen](const Spec&, const MeshRequest& request) { return chosen(request).plan; },
           .keeps_average = true}};
}

/// The same of a pipeline of four micro-batches. `prepare` may change the model before it is cut, `change` the
/// operations.
inline Registered<StrategyKind> mutant_of_pipeline(
    const char* name, const char* help, const SchedulePlan& schedule,
    const std::function<void(const StrategyContext&)>& prepare,
    const std::function<void(StepPlan&)>& change = [](StepPlan&) {}) {
  const auto planned = [schedule, change](const MeshRequest& request) {
    StepPlan plan{.schedule = schedule};
    plan.mesh.pipe = plan.schedule.ranks = request.ranks > 0 ? request.ranks : request.default_ranks;
    plan.schedule.micro_batches = 4;
    change(plan);
    return plan;
  };
  return {
      name,
      {},
      help,
      [planned, prepare](const Spec&, const StrategyContext& context) {
        prepare(context);
        return std::make_unique<Engine>(context, planned(request_of(context)));
      },
      {.plan = [planned](const Spec&, const MeshRequest& request) { return planned(request); }, .keeps_average = true}};
}

}  // namespace penstock::detail
