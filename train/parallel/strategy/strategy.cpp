// Strategy: a state in memory, and what a mode cannot do where it says nothing.
#include "train/parallel/strategy/strategy.h"

#include "core/error.h"
#include "train/parallel/strategy/old_keys.h"

namespace penstock {

void Strategy::average_weights(double, bool) {
  throw bug_error("a mode that keeps no average was asked for one; expected Traits::keeps_average");
}

void Strategy::compute_in(const Precision&) {
  throw config_error(
      "--precision f16: this mode skips no steps, as a scale that adapts needs it; expected f16(scale=1024)");
}

StepPlan plan_of(const Spec& spec, const MeshRequest& request) {
  const auto& mode = StrategyRegistry::entry(spec.name());
  StepPlan plan = mode.traits.plan(detail::without_old_keys(spec).with_keys(mode.keys), request);
  plan.mode = spec.name();
  return plan;
}

StateDict Strategy::state() {
  StateDict state;
  for_each_state([&](const std::string& name, const torch::Tensor& tensor) {
    state[name] = tensor.detach().to(torch::kCPU, /*non_blocking=*/false, /*copy=*/true);
  });
  return state;
}

}  // namespace penstock
