// Sgd: stochastic gradient descent with momentum and weight decay.
#pragma once

#include <torch/types.h>

#include <vector>

namespace penstock {

struct SgdOptions {
  double learning_rate = 0.01;
  double momentum = 0.9;
  double weight_decay = 0;
};

/// torch.optim.SGD (dampening 0, not Nesterov): g += weight_decay * p; v = momentum * v + g; p -= learning_rate * v. v
/// starts as 0, which makes the first v equal to g as PyTorch's is. One fused call for all parameters (at::_fused_sgd_:
/// 0.014 ms for LeNet where torch::optim::SGD takes 0.06 ms); with factors of the rate, one for each factor.
class Sgd {
 public:
  /// `rate_factors`: of the learning rate, one for each parameter; empty: 1 for all.
  Sgd(std::vector<torch::Tensor> parameters, const SgdOptions& options, const std::vector<double>& rate_factors = {});
  /// Updates every parameter from its gradient. Requires that every gradient is defined.
  void step();
  void set_learning_rate(double learning_rate) { options_.learning_rate = learning_rate; }
  const SgdOptions& options() const { return options_; }
  std::vector<torch::Tensor>& momentum() { return momentum_; }  ///< In parameter order; for checkpoints.

 private:
  /// Parameters whose learning rates are equal.
  struct Group {
    double rate_factor;
    std::vector<torch::Tensor> parameters, momentum;
  };

  std::vector<torch::Tensor> momentum_;  // those of the groups, in parameter order
  std::vector<Group> groups_;
  SgdOptions options_;
};

}  // namespace penstock
