// The choice of a StepRunner.
#pragma once

#include <memory>

#include "train/parallel/engine/step_runner.h"

namespace penstock::detail {

/// A ScheduleRunner; with StrategyContext::emulation, if its steps are not real, an EmulatedStep in its place. With
/// Mesh::shards its micro-batches are MicroShards.
std::unique_ptr<StepRunner> make_step_runner(const StepParts& parts, const StrategyContext& context);

}  // namespace penstock::detail
