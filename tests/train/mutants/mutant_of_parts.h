// What registers a mutant that is put together from the parts of other modes.
#pragma once

#include <functional>
#include <memory>

#include "train/nn/model.h"
#include "train/parallel/engine/engine.h"
#include "train/parallel/pipeline/stage_cuts.h"
#include "train/parallel/sync/bucket_sync.h"

namespace penstock::detail {

/// Registers a mode of copies of the whole model.
inline Registered<StrategyKind> mutant_of_parts(
    const char* name, const char* help, const std::function<void(StepConfig&)>& choose,
    const std::function<void(const StrategyContext&)>& prepare = [](const StrategyContext&) {}) {
  return {name,
          {},
          help,
          [choose, prepare](const Spec&, const StrategyContext& context) {
            const Mesh mesh{.data = context.comm.world_size()};
            StepConfig config{.mesh = mesh};
            config.sync = make_bucket_sync;
            choose(config);
            prepare(context);
            return std::make_unique<Engine>(context, config);
          },
          {.mesh =
               [](const Spec&, const MeshRequest& request) {
                 return Mesh{.data = request.ranks > 0 ? request.ranks : request.default_ranks};
               },
           .keeps_average = true}};
}

/// The same of a pipeline of four micro-batches. `prepare` may change the model before it is cut, and this rank's
/// schedule.
inline Registered<StrategyKind> mutant_of_pipeline(
    const char* name, const char* help, const SchedulePlan& plan,
    const std::function<void(const StrategyContext&, Schedule&)>& prepare) {
  return {name,
          {},
          help,
          [plan, prepare](const Spec&, const StrategyContext& context) {
            const int ranks = context.comm.world_size();
            SchedulePlan own = plan;
            own.ranks = ranks;
            own.micro_batches = 4;
            StepConfig config{.mesh = {.pipe = ranks}, .micro_batches = own.micro_batches};
            config.placement = Placement::loop(ranks, 1);
            config.ranges =
                balanced(context.model.blocks().size(), static_cast<size_t>(ranks), part_parameters(context.model));
            config.schedule = schedules_of(own)[static_cast<size_t>(context.comm.rank())];
            prepare(context, config.schedule);
            return std::make_unique<Engine>(context, config);
          },
          {.mesh =
               [](const Spec&, const MeshRequest& request) {
                 return Mesh{.pipe = request.ranks > 0 ? request.ranks : request.default_ranks};
               },
           .promise = [](const Spec&, const Mesh&) { return EquivalenceGuarantee{.sees_whole_batches = false}; },
           .keeps_average = true}};
}

}  // namespace penstock::detail
