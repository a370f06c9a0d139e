// ResNet: blocks, stages and initialisation as torchvision.models.resnet has them.
#include "train/models/resnet.h"

#include <torch/nn/init.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <numeric>

#include "core/text.h"
#include "train/nn/batch_norm.h"
#include "train/nn/drop.h"
#include "train/nn/initial_weights.h"
#include "train/nn/layers.h"

namespace penstock::detail {
namespace {

using torch::Tensor;
using torch::nn::Conv2dOptions, torch::nn::Sequential;

// The stem divides the side by 4, and each of layer2 to layer4 halves it. At 16 x 16, layer4 would work on a single
// point, with only padding around it.
constexpr int64_t kMinSide = 17;

/// Its weight gets its initial value in ResNet::initialise().
Conv2d convolution(int64_t inputs, int64_t outputs, int64_t kernel, int64_t stride) {
  Conv2d convolution(Conv2dOptions(inputs, outputs, kernel).stride(stride).padding(kernel / 2).bias(false));
  draws_later(convolution->weight);
  return convolution;
}

/// A residual block: convolutions with BatchNorm, rectified linear units between them, and a shortcut around them.
class BlockImpl : public torch::nn::Module {
 public:
  BlockImpl(ResNetBlock kind, int64_t inputs, int64_t width, int64_t stride, const DropPath& drop_path)
      : drop_path_(register_module("drop_path", drop_path)) {
    const int64_t outputs = width * expansion(kind);
    if (kind == ResNetBlock::kBasic) {
      add(convolution(inputs, width, 3, stride), width);
      add(convolution(width, outputs, 3, 1), outputs);
    } else {
      add(convolution(inputs, width, 1, 1), width);
      add(convolution(width, width, 3, stride), width);
      add(convolution(width, outputs, 1, 1), outputs);
    }
    if (stride != 1 || inputs != outputs)
      downsample_ =
          register_module("downsample", Sequential(convolution(inputs, outputs, 1, stride), BatchNorm2d(outputs)));
  }

  Tensor forward(const Tensor& x) {
    Tensor y = x;
    for (size_t i = 0; i < layers_.size(); ++i) {
      y = layers_[i].second(layers_[i].first(y));
      if (i + 1 < layers_.size()) y = y.relu_();
    }
    return drop_path_(y).add_(downsample_.is_empty() ? x : downsample_->forward(x)).relu_();
  }

  static int64_t expansion(ResNetBlock kind) { return kind == ResNetBlock::kBasic ? 1 : 4; }

 private:
  void add(Conv2d convolution, int64_t outputs) {
    const size_t number = layers_.size() + 1;
    Conv2d conv = register_module(concat("conv", number), std::move(convolution));
    BatchNorm2d norm = register_module(concat("bn", number), BatchNorm2d(outputs));
    layers_.emplace_back(conv, norm);
  }

  std::vector<std::pair<Conv2d, BatchNorm2d>> layers_;
  Sequential downsample_{nullptr};
  DropPath drop_path_;
};
TORCH_MODULE(Block);

class ResNet final : public Model {
 public:
  ResNet(ResNetBlock kind, const std::array<int, 4>& block_counts, double drop_path, const ModelShape& shape) {
    Conv2d conv1 = register_module("conv1", convolution(shape.channels, 64, 7, 2));
    BatchNorm2d bn1 = register_module("bn1", BatchNorm2d(64));
    add_block("stem", {"conv1", "bn1"}, [conv1, bn1](const Tensor& x) mutable {
      return torch::max_pool2d(bn1(conv1(x)).relu_(), /*kernel_size=*/3, /*stride=*/2, /*padding=*/1);
    });
    const int count = std::accumulate(block_counts.begin(), block_counts.end(), 0);
    int64_t channels = 64;
    int index = 0;
    for (int layer = 0; layer < 4; ++layer) {
      const std::string name = concat("layer", layer + 1);
      const int64_t width = int64_t{64} << layer;
      // A stage for each block: a pipeline may cut between any two.
      Sequential blocks;
      for (int b = 0; b < block_counts[layer]; ++b, ++index) {
        const DropPath drops(drop_path_rate(drop_path, index, count), index);
        Block block(kind, channels, width, b == 0 && layer > 0 ? 2 : 1, drops);
        blocks->push_back(block);
        const std::string path = concat(name, ".", b);
        add_block(path, {path}, [block](const Tensor& x) mutable { return block(x); });
        channels = width * BlockImpl::expansion(kind);
      }
      register_module(name, blocks);
    }
    Linear fc = register_module("fc", Linear(channels, shape.classes));
    drawn("fc", *fc);
    add_block("head", {"fc"}, [fc](const Tensor& x) mutable { return fc(x.mean({2, 3})); });
    initialise();
  }

  bool rounds_images() const override { return true; }

 private:
  /// Initialises as torchvision does: convolutions from a normal distribution that keeps the variance of backward
  /// signals (He et al. 2015, "Delving deep into rectifiers", eq. 14). BatchNorm with 1 and 0, and the linear layer
  /// from a uniform distribution, are LibTorch's defaults.
  void initialise() {
    for (const auto& item : named_modules("", /*include_self=*/false))
      if (auto* conv = item.value()->as<torch::nn::Conv2dImpl>())
        draw(item.key() + ".weight", conv->weight,
             [](const Tensor& weight) { torch::nn::init::kaiming_normal_(weight, 0, torch::kFanOut, torch::kReLU); });
  }
};

}  // namespace

std::unique_ptr<Model> make_resnet(const Spec& spec, ResNetBlock block, std::array<int, 4> block_counts,
                                   const ModelShape& shape) {
  if (shape.height < kMinSide || shape.width < kMinSide)
    throw config_error(concat(spec.where(), ": pictures are ", shape.width, " x ", shape.height, "; expected at least ",
                              kMinSide, " x ", kMinSide));
  return std::make_unique<ResNet>(block, block_counts, drop_rate(spec, "drop-path"), shape);
}

}  // namespace penstock::detail
