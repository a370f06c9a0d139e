// Sgd: one fused call for all parameters.
#include "train/optimizer.h"

#include <utility>

namespace penstock {

Sgd::Sgd(std::vector<torch::Tensor> parameters, const SgdOptions& options)
    : parameters_(std::move(parameters)), options_(options) {
  for (const auto& parameter : parameters_) momentum_.push_back(torch::zeros_like(parameter));
}

void Sgd::step() {
  at::NoGradGuard no_grad;
  std::vector<torch::Tensor> gradients;
  gradients.reserve(parameters_.size());
  for (const auto& parameter : parameters_) gradients.push_back(parameter.grad());
  // Without momentum the kernel wants no buffers; they stay 0, so that a checkpoint has the same tensors either way.
  const auto buffers = options_.momentum == 0 ? at::TensorList{} : at::TensorList{momentum_};
  at::_fused_sgd_(parameters_, gradients, buffers, options_.weight_decay, options_.momentum, options_.learning_rate,
                  /*dampening=*/0, /*nesterov=*/false, /*maximize=*/false, /*is_first_step=*/false);
}

}  // namespace penstock
