// Model: the plug-in that is a network, as a sequence of named blocks, so that a strategy can cut it.
//
// Lives here: what models are made of: layers, precision, initial and pretrained weights, groups of parameters.
// Not here: networks (train/models), and how they are cut and spread over ranks (train/parallel).
#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/registry.h"
#include "train/nn/shape.h"
#include "train/tensor/named_tensors.h"

namespace penstock {

/// A stretch of the network between two places where it may be cut.
struct Block {
  std::string name;
  std::vector<std::string> modules;  // paths of the modules and parameters that it uses: conv1, layer1.0, class_token
  std::function<torch::Tensor(const torch::Tensor&)> forward;
  bool has_rate_of_next = false;  // for --layer-decay, which counts it and the block after it as one
};

/// Gives pictures batch after batch: f32 N x C x H x W on the CPU, valid until the next call; undefined after the last.
using NextImages = std::function<torch::Tensor()>;

/// The modules are registered as children of the model itself, under the names that files with weights use
/// (torchvision's for ResNets); blocks only group them. A model must not be copied or cloned, because its blocks refer
/// to its children.
class Model : public torch::nn::Module {
 public:
  /// f32 (or f64 after to(kFloat64)) N x C x H x W -> logits N x classes.
  torch::Tensor forward(torch::Tensor x) const {
    for (const auto& block : blocks_) x = block.forward(x);
    return x;
  }
  const std::vector<Block>& blocks() const { return blocks_; }
  /// From now on block i runs `wrap(i, what it ran)`.
  using BlockForward = decltype(Block::forward);
  void wrap_blocks(const std::function<BlockForward(size_t block, BlockForward forward)>& wrap);

  /// Freezes the module or parameter with this path ("layer1", "layer4.0"). From now on its parameters get no gradient,
  /// so that strategies leave them out, and it stays in evaluation mode: its BatchNorm normalises by its running
  /// statistics and does not change them. Requires that there is such a module.
  void freeze(const std::string& module);
  /// How many pictures of training initial_weights() wants; 0: the seed alone decides the initial weights.
  virtual int64_t initial_image_count() const { return 0; }
  /// Initial values that follow from pictures, which are normalised as in an evaluation. Draws no random numbers and
  /// reads no weights, which may be elsewhere. Ranks may see different pictures; the weights of data rank 0 count.
  virtual NamedTensors initial_weights(const NextImages&) const { return {}; }
  /// Whether nothing reads the pictures but a layer of precision.h, which in half precision rounds them first. The bits
  /// are then the same if they come rounded.
  virtual bool rounds_images() const { return false; }

  /// Sets training or evaluation mode for all modules except the frozen ones.
  void train(bool on = true) override;

 protected:
  void add_block(std::string name, std::vector<std::string> modules,
                 std::function<torch::Tensor(const torch::Tensor&)> forward, bool has_rate_of_next = false) {
    blocks_.push_back({std::move(name), std::move(modules), std::move(forward), has_rate_of_next});
  }

 private:
  std::vector<Block> blocks_;
  std::vector<std::shared_ptr<torch::nn::Module>> frozen_;
};

struct ModelKind {
  using Interface = Model;
  static constexpr const char* kName = "arch";
  using Factory = std::function<std::unique_ptr<Model>(const Spec&, const ModelShape&)>;
};
using ModelRegistry = Registry<ModelKind>;

/// The model that `arch` names, such as "mlp(hidden=64)". Throws config_error for unknown names and keys, for a picture
/// that the model does not take, and where two parameters are one tensor: optimisers would update it twice per step,
/// and slices of it would lie at two ranks. A module that is used in several places needs one name alone.
std::unique_ptr<Model> make_model_of(const std::string& arch, const ModelShape& shape);

}  // namespace penstock
