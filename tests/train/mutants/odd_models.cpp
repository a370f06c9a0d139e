// Odd models: one that takes long to build, and one with a parameter under two names.
#include <torch/nn/modules/linear.h>

#include <thread>

#include "core/clock.h"
#include "train/models/model.h"

namespace penstock {
namespace {

class SlowToBuild final : public Model {
 public:
  explicit SlowToBuild(const ModelShape& shape) {
    const int64_t begin_ns = now_ns();
    while (ms_since(begin_ns) < 600) std::this_thread::yield();
    torch::nn::Linear fc =
        register_module("fc", torch::nn::Linear(shape.channels * shape.height * shape.width, shape.classes));
    add_stage("fc", {"fc"}, [fc](const torch::Tensor& x) mutable { return fc(x.flatten(1)); });
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
    add_stage("in", {"in"}, [fc](const torch::Tensor& x) mutable { return fc(x.flatten(1)); });
  }
};
const Registered<ModelKind> kTied{
    "tied", {}, "a linear layer with two names", [](const Spec&, const ModelShape& shape) {
      return std::make_unique<Tied>(shape);
    }};

}  // namespace
}  // namespace penstock
