// What the tests of strategies train: random pictures, and a model with an unused parameter.
#pragma once

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include "train/verify/difference.h"
#include "train/verify/trainee.h"

namespace penstock {

inline Samples random_samples(int64_t count, const ModelShape& shape, int seed) {
  at::manual_seed(seed);
  return {torch::randn({count, shape.channels, shape.height, shape.width}, torch::kFloat64),
          torch::randint(shape.classes, {count}, torch::kInt64)};
}

/// A model with BatchNorm and with a parameter that forward() does not use, for pictures of 1 x 12 x 12.
class TinyNorm final : public Model {
 public:
  TinyNorm() {
    torch::nn::BatchNorm2d norm = register_module("norm", torch::nn::BatchNorm2d(1));
    torch::nn::Linear fc = register_module("fc", torch::nn::Linear(144, 4));
    register_module("idle", torch::nn::Linear(3, 2));
    add_stage("all", {"norm", "fc", "idle"},
              [norm, fc](const torch::Tensor& x) mutable { return fc(norm(x).flatten(1)); });
  }
};

/// What this rank has of a model that it holds whole, with copies under the names of Strategy::state().
inline StateDict own_model(const Model& model) {
  StateDict state;
  for (const auto& item : model.named_parameters()) state["model." + item.key()] = item.value().detach().clone();
  for (const auto& item : model.named_buffers()) state["model." + item.key()] = item.value().clone();
  return state;
}

/// The largest difference in any tensor, relative to the largest element of that tensor.
inline double relative_difference(const StateDict& one, const StateDict& other) {
  return largest_difference(one, other).relative;
}

}  // namespace penstock
