// PlainOptimizer: the formulas of optimisers, written out for one tensor after the other, for tests to compare with.
#pragma once

#include <torch/types.h>

#include <cmath>
#include <vector>

#include "train/optimizers/optimizer.h"

namespace penstock {

/// Takes the names `adam`, `adamw` and `lamb`, whose keys have their defaults, and `sgd`, which is LibTorch's kernel,
/// so that the bits of `single` can be compared with it.
class PlainOptimizer {
 public:
  explicit PlainOptimizer(OptimizerOptions options) : options_(std::move(options)) {}

  void step(const std::vector<torch::Tensor>& parameters, const std::vector<torch::Tensor>& gradients) {
    at::NoGradGuard no_grad;
    if (step_count_++ == 0)
      for (const auto& parameter : parameters) {
        first_.push_back(torch::zeros_like(parameter));
        second_.push_back(torch::zeros_like(parameter));
      }
    if (options_.spec == "sgd")
      at::_fused_sgd_(parameters, gradients, first_, options_.weight_decay, options_.momentum, options_.learning_rate,
                      0, false, false, false);
    else
      for (size_t i = 0; i < parameters.size(); ++i) step_of(parameters[i], gradients[i], first_[i], second_[i]);
  }

 private:
  void step_of(const torch::Tensor& p, torch::Tensor g, torch::Tensor& m, torch::Tensor& v) const {
    const double rate = options_.learning_rate, decay = options_.weight_decay;
    if (options_.spec == "adam") g = g + decay * p;
    m = 0.9 * m + 0.1 * g;
    v = 0.999 * v + 0.001 * g * g;
    const auto mean = m / (1 - std::pow(0.9, step_count_)), square = v / (1 - std::pow(0.999, step_count_));
    if (options_.spec == "adam") p.sub_(rate * mean / (square.sqrt() + 1e-8));
    if (options_.spec == "adamw") p.copy_(p - rate * decay * p - rate * mean / (square.sqrt() + 1e-8));
    if (options_.spec != "lamb") return;
    const auto direction = mean / (square.sqrt() + 1e-6) + decay * p;
    const double of_parameter = p.norm().item<double>(), of_step = direction.norm().item<double>();
    const double ratio = of_parameter > 0 && of_step > 0 ? of_parameter / of_step : 1;
    p.sub_(rate * ratio * direction);
  }

  OptimizerOptions options_;
  std::vector<torch::Tensor> first_, second_;  // one entry per parameter
  int step_count_ = 0;
};

}  // namespace penstock
