// Odd models: one that takes long to build, one with a parameter under two names, one of a user with residual blocks,
// and those that draw random numbers.
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <functional>
#include <random>
#include <thread>

#include "core/clock.h"
#include "train/nn/drop.h"
#include "train/nn/model.h"

namespace penstock {
namespace {

class SlowToBuild final : public Model {
 public:
  explicit SlowToBuild(const ModelShape& shape) {
    const int64_t begin_ns = now_ns();
    while (ms_since(begin_ns) < 600) std::this_thread::yield();
    torch::nn::Linear fc =
        register_module("fc", torch::nn::Linear(shape.channels * shape.height * shape.width, shape.classes));
    add_block("fc", {"fc"}, [fc](const torch::Tensor& x) mutable { return fc(x.flatten(1)); });
  }
};
const Registered<ModelKind> kSlowToBuild{
    "slow-to-build", {}, "a linear layer that is built in 0.6 s", [](const Spec&, const ModelShape& shape) {
      return std::make_unique<SlowToBuild>(shape);
    }};

class Tied final : public Model {
 public:
  explicit Tied(const ModelShape& shape) {
    torch::nn::Linear fc =
        register_module("in", torch::nn::Linear(shape.channels * shape.height * shape.width, shape.classes));
    register_module("out", fc);
    add_block("in", {"in"}, [fc](const torch::Tensor& x) mutable { return fc(x.flatten(1)); });
  }
};
const Registered<ModelKind> kTied{
    "tied", {}, "a linear layer with two names", [](const Spec&, const ModelShape& shape) {
      return std::make_unique<Tied>(shape);
    }};

/// Two linear layers with this library's dropout, which drops by row, between them.
class RowDropout final : public Model {
 public:
  explicit RowDropout(const ModelShape& shape) {
    torch::nn::Linear in = register_module("in", torch::nn::Linear(shape.channels * shape.height * shape.width, 32));
    Dropout drop = register_module("drop", Dropout(0.3, 0));
    torch::nn::Linear out = register_module("out", torch::nn::Linear(32, shape.classes));
    add_block("in", {"in", "drop"},
              [in, drop](const torch::Tensor& x) mutable { return drop(in(x.flatten(1)).relu()); });
    add_block("out", {"out"}, [out](const torch::Tensor& x) mutable { return out(x); });
  }
};
const Registered<ModelKind> kRowDropout{
    "row-dropout", {}, "two linear layers with dropout by row", [](const Spec&, const ModelShape& shape) {
      return std::make_unique<RowDropout>(shape);
    }};

using torch::nn::Conv2d, torch::nn::Conv2dOptions;

/// Wide residual blocks without BatchNorm, as a user might write them.
class Residual final : public Model {
 public:
  explicit Residual(const ModelShape& shape) {
    Conv2d stem = register_module("stem", Conv2d(Conv2dOptions(shape.channels, 32, 3).stride(2).padding(1)));
    add_block("stem", {"stem"}, [stem](const torch::Tensor& x) mutable { return stem(x).relu(); });
    for (const std::string name : {"a", "b", "c"}) {
      Conv2d first = register_module(name + "1", Conv2d(Conv2dOptions(32, 32, 3).padding(1)));
      Conv2d second = register_module(name + "2", Conv2d(Conv2dOptions(32, 32, 3).padding(1)));
      add_block(name, {name + "1", name + "2"},
                [first, second](const torch::Tensor& x) mutable { return (x + second(first(x).relu())).relu(); });
    }
    torch::nn::Linear head = register_module("head", torch::nn::Linear(32, shape.classes));
    add_block("head", {"head"}, [head](const torch::Tensor& x) mutable { return head(x.mean({2, 3})); });
  }
};
const Registered<ModelKind> kResidual{
    "residual", {}, "residual blocks of 32 channels", [](const Spec&, const ModelShape& shape) {
      return std::make_unique<Residual>(shape);
    }};

/// Two linear layers with noise on what is between them.
class Noisy final : public Model {
 public:
  using Noise = std::function<torch::Tensor(const torch::Tensor& x)>;
  Noisy(const ModelShape& shape, const Noise& noise) {
    torch::nn::Linear in = register_module("in", torch::nn::Linear(shape.channels * shape.height * shape.width, 32));
    torch::nn::Linear out = register_module("out", torch::nn::Linear(32, shape.classes));
    add_block("in", {"in"}, [this, in, noise](const torch::Tensor& x) mutable {
      const auto y = in(x.flatten(1)).relu();
      return is_training() ? noise(y) : y;
    });
    add_block("out", {"out"}, [out](const torch::Tensor& x) mutable { return out(x); });
  }
};
const Registered<ModelKind> kDropout{
    "dropout", {}, "two linear layers with dropout", [](const Spec&, const ModelShape& shape) {
      return std::make_unique<Noisy>(shape, [](const auto& x) { return torch::dropout(x, 0.3, /*train=*/true); });
    }};
const Registered<ModelKind> kOwnNoise{"own-noise",
                                      {},
                                      "two linear layers with noise from a generator of its own",
                                      [](const Spec&, const ModelShape& shape) {
                                        return std::make_unique<Noisy>(
                                            shape, [random = std::mt19937(1)](const auto& x) mutable {
                                              return x * (1 + 1e-3 * std::normal_distribution<double>()(random));
                                            });
                                      }};

}  // namespace
}  // namespace penstock
