// Model: the plug-in that builds a network as a sequence of named stages, so that a strategy can cut it.
#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/registry.h"
#include "train/models/shape.h"

namespace penstock {

/// A stretch of the network between two places where it may be cut.
struct Stage {
  std::string name;
  std::vector<std::string> modules;  // names of the model's direct children whose parameters the stage uses
  std::function<torch::Tensor(const torch::Tensor&)> forward;
};

/// Children are registered on the model itself, under the names that weights files know (torchvision's for ResNets);
/// stages only group them. A model must not be copied or cloned: its stages refer to its children.
class Model : public torch::nn::Module {
 public:
  /// f32 (or f64 after to(kFloat64)) N x C x H x W -> logits N x classes.
  torch::Tensor forward(torch::Tensor x) const {
    for (const auto& stage : stages_) x = stage.forward(x);
    return x;
  }
  const std::vector<Stage>& stages() const { return stages_; }

  /// The parameters of the module of this path ("layer1", "layer4.0") get no gradient from here on, so that strategies
  /// leave them out, and the module stays in evaluation mode: its BatchNorm normalises by the running statistics that
  /// it has, and keeps them. Requires that there is such a module.
  void freeze(const std::string& module);
  /// Of all modules but the frozen ones.
  void train(bool on = true) override;

 protected:
  void add_stage(std::string name, std::vector<std::string> modules,
                 std::function<torch::Tensor(const torch::Tensor&)> forward) {
    stages_.push_back({std::move(name), std::move(modules), std::move(forward)});
  }

 private:
  std::vector<Stage> stages_;
  std::vector<std::shared_ptr<torch::nn::Module>> frozen_;
};

struct ModelKind {
  using Interface = Model;
  static constexpr const char* kName = "arch";
  using Factory = std::function<std::unique_ptr<Model>(const Spec&, const ModelShape&)>;
};
using ModelRegistry = Registry<ModelKind>;

}  // namespace penstock
