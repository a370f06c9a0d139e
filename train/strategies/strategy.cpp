// Strategy: a state in memory.
#include "train/strategies/strategy.h"

namespace penstock {

StateDict Strategy::state() {
  StateDict state;
  for_each_state([&](const std::string& name, const torch::Tensor& tensor) {
    state[name] = tensor.detach().to(torch::kCPU, /*non_blocking=*/false, /*copy=*/true);
  });
  return state;
}

}  // namespace penstock
