// Strategy: a state in memory.
#include "train/strategies/strategy.h"

#include "core/error.h"

namespace penstock {

void Strategy::average_weights(double, bool) {
  throw bug_error("a mode that keeps no average was asked for one; expected Traits::keeps_average");
}

StateDict Strategy::state() {
  StateDict state;
  for_each_state([&](const std::string& name, const torch::Tensor& tensor) {
    state[name] = tensor.detach().to(torch::kCPU, /*non_blocking=*/false, /*copy=*/true);
  });
  return state;
}

}  // namespace penstock
