// What the tests of strategies train, and how: random pictures, models and an optimiser.
#pragma once

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <memory>
#include <mutex>
#include <string>

#include "train/verify/difference.h"
#include "train/verify/strategy_harness.h"

namespace penstock {

inline const OptimizerOptions kSgd{.learning_rate = 0.05, .momentum = 0.9, .weight_decay = 1e-3};
inline constexpr ModelShape kGrey{.channels = 1, .height = 28, .width = 28, .classes = 10};
inline constexpr ModelShape kSmallGrey{.channels = 1, .height = 12, .width = 12, .classes = 4};
inline constexpr ModelShape kSmallPhotos{.channels = 3, .height = 33, .width = 33, .classes = 5};

/// A model is built from the global random numbers, so rank threads take turns.
inline std::unique_ptr<Model> make(const std::string& arch, const ModelShape& shape = kGrey, int seed = 1) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  at::manual_seed(static_cast<uint64_t>(seed));
  return ModelRegistry::make(parse_spec("arch", arch), shape);
}

inline std::unique_ptr<Model> make_lenet() { return make("lenet"); }
inline std::unique_ptr<Model> make_small_lenet() { return make("lenet", kSmallGrey); }

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
    add_block("all", {"norm", "fc", "idle"},
              [norm, fc](const torch::Tensor& x) mutable { return fc(norm(x).flatten(1)); });
  }
};

inline std::unique_ptr<Model> make_tiny() { return std::make_unique<TinyNorm>(); }

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
