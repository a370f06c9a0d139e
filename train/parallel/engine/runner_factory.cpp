// The choice of a StepRunner: real or emulated, with shards or without.
#include "train/parallel/engine/runner_factory.h"

#include <utility>

#include "train/parallel/engine/emulated_step.h"
#include "train/parallel/engine/schedule_runner.h"
#include "train/parallel/engine/step_config.h"
#include "train/parallel/exact/micro_shards.h"

namespace penstock::detail {
namespace {

std::unique_ptr<MicroBatchObserver> make_observer(const StepParts& parts, const StrategyContext& context) {
  const auto& config = parts.config;
  if (config.mesh.shards == 0) return std::make_unique<MicroBatchObserver>();
  const bool shares_generator =
      config.replicas != nullptr || (parts.device.is_cpu() && context.comm.backend() == "threads");
  return std::make_unique<MicroShards>(parts.part, parts.data, config.replicas.get(), config.mesh.shards, context.seed,
                                       parts.device, shares_generator);
}

}  // namespace

std::unique_ptr<StepRunner> make_step_runner(const StepParts& parts, const StrategyContext& context) {
  auto real = std::make_unique<ScheduleRunner>(parts, make_observer(parts, context), loss_of(context.step));
  if (context.emulation.learns()) return real;
  return std::make_unique<EmulatedStep>(parts, context.emulation, std::move(real));
}

}  // namespace penstock::detail
