// Sgd: one fused call for all parameters that have the same learning rate.
#include "train/optimizer.h"

#include <algorithm>

namespace penstock {

Sgd::Sgd(std::vector<torch::Tensor> parameters, const SgdOptions& options, const std::vector<double>& rate_factors)
    : options_(options) {
  for (size_t i = 0; i < parameters.size(); ++i) {
    const double factor = rate_factors.empty() ? 1 : rate_factors[i];
    auto group =
        std::find_if(groups_.begin(), groups_.end(), [&](const Group& one) { return one.rate_factor == factor; });
    if (group == groups_.end()) group = groups_.insert(groups_.end(), Group{factor, {}, {}});
    group->parameters.push_back(parameters[i]);
    group->momentum.push_back(momentum_.emplace_back(torch::zeros_like(parameters[i])));
  }
}

void Sgd::step() {
  at::NoGradGuard no_grad;
  for (const auto& group : groups_) {
    std::vector<torch::Tensor> gradients;
    gradients.reserve(group.parameters.size());
    for (const auto& parameter : group.parameters) gradients.push_back(parameter.grad());
    // Without momentum the kernel takes no buffers. They stay 0, so that a checkpoint has the same tensors in both
    // cases.
    const auto buffers = options_.momentum == 0 ? at::TensorList{} : at::TensorList{group.momentum};
    at::_fused_sgd_(group.parameters, gradients, buffers, options_.weight_decay, options_.momentum,
                    options_.learning_rate * group.rate_factor, /*dampening=*/0, /*nesterov=*/false,
                    /*maximize=*/false, /*is_first_step=*/false);
  }
}

}  // namespace penstock
