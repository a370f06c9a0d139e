// airbench: a small convolutional network that learns CIFAR-10 in seconds.
#include <torch/nn/init.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/text.h"
#include "train/models/whitening.h"
#include "train/nn/batch_norm.h"
#include "train/nn/layers.h"
#include "train/nn/model.h"

namespace penstock {
namespace {

using torch::Tensor;
using torch::nn::Conv2dOptions, torch::nn::LinearOptions;

/// A convolution of 3 x 3 that begins by passing its inputs on: the first filters are the identity.
Conv2d passing_convolution(int64_t inputs, int64_t outputs) {
  at::NoGradGuard no_grad;
  Conv2d conv(Conv2dOptions(inputs, outputs, 3).padding(1).bias(false));
  torch::nn::init::dirac_(conv->weight.narrow(0, 0, std::min(inputs, outputs)));
  return conv;
}

struct AirbenchOptions {
  double width, norm_momentum;
  bool has_silu;  // the blocks have SiLU in place of GELU; the first layer always has GELU
};

/// With a factor of 1 that is not trained, and statistics that follow quickly.
BatchNorm2d fast_norm(int64_t channels, double momentum) {
  BatchNorm2d norm(channels);
  norm->options.momentum(momentum).eps(1e-12);
  norm->weight.set_requires_grad(false);
  return norm;
}

/// conv, max pooling by 2, BatchNorm, GELU or SiLU, conv, BatchNorm, GELU or SiLU.
class AirbenchBlockImpl : public torch::nn::Module {
 public:
  AirbenchBlockImpl(int64_t inputs, int64_t outputs, const AirbenchOptions& options)
      : activate_(options.has_silu ? at::silu : static_cast<Tensor (*)(const Tensor&)>(gelu)),
        conv1_(register_module("conv1", passing_convolution(inputs, outputs))),
        norm1_(register_module("norm1", fast_norm(outputs, options.norm_momentum))),
        conv2_(register_module("conv2", passing_convolution(outputs, outputs))),
        norm2_(register_module("norm2", fast_norm(outputs, options.norm_momentum))) {}

  Tensor forward(const Tensor& x) {
    const auto half = activate_(norm1_(torch::max_pool2d(conv1_(x), 2)));
    return activate_(norm2_(conv2_(half)));
  }

 private:
  static Tensor gelu(const Tensor& x) { return torch::gelu(x); }

  Tensor (*activate_)(const Tensor&);
  Conv2d conv1_;
  BatchNorm2d norm1_;
  Conv2d conv2_;
  BatchNorm2d norm2_;
};
TORCH_MODULE(AirbenchBlock);

/// The network of airbench94, Jordan 2024, arXiv:2404.00498, sec. 3, with its initialisation: whitening filters of 2 x
/// 2 that are not trained, beside a bias that is; three blocks; logits divided by the channels. `width` multiplies the
/// channels of the blocks, 64, 256 and 256. Without initial_weights() the first filters are LibTorch's random ones.
/// Deviations: the source trains the bias of the whitening layer in the first epochs alone; the last pooling takes the
/// whole map, which with pictures of 32 x 32 is the 3 x 3 of the source, so that pictures may have any size; the
/// filters are those of 5,000 pictures as --seed shuffles them, in the source of the first 5,000 of the data set's
/// files, whose order is mixed. Packed data may be in the order of their classes.
class Airbench final : public Model {
 public:
  Airbench(const AirbenchOptions& options, const ModelShape& shape) {
    int64_t channels = 2 * shape.channels * kSide * kSide;
    Conv2d whiten = register_module("whiten", Conv2d(Conv2dOptions(shape.channels, channels, kSide)));
    whiten->weight.set_requires_grad(false);
    add_block("whiten", {"whiten"}, [whiten](const Tensor& x) mutable { return torch::gelu(whiten(x)); });
    for (int number = 1; number <= 3; ++number) {
      const auto outputs = std::max<int64_t>(1, std::llround((number == 1 ? 64 : 256) * options.width));
      const std::string name = concat("block", number);
      AirbenchBlock block = register_module(name, AirbenchBlock(channels, outputs, options));
      add_block(name, {name}, [block](const Tensor& x) mutable { return block(x); });
      channels = outputs;
    }
    Linear head = register_module("head", Linear(LinearOptions(channels, shape.classes).bias(false)));
    at::NoGradGuard no_grad;
    head->weight.div_(head->weight.std());
    add_block("head", {"head"}, [head, channels](const Tensor& x) mutable {
      const auto features = torch::max_pool2d(x, {x.size(2), x.size(3)}).flatten(1);
      return head(features) / static_cast<double>(channels);
    });
  }

  int64_t initial_image_count() const override { return 5000; }
  NamedTensors initial_weights(const NextImages& next_images) const override {
    return {{"whiten.weight", detail::whitening_filters(next_images, kSide)}};
  }
  bool rounds_images() const override { return true; }

 private:
  static constexpr int64_t kSide = 2;
};

constexpr int64_t kLeastSide = 9;  // 8 after the first convolution, 1 after three poolings

AirbenchOptions airbench_options(const Spec& spec) {
  const std::string activation = spec.get("activation", "gelu");
  const AirbenchOptions options{.width = spec.get("width", 1.0),
                                .norm_momentum = spec.get("norm-momentum", 0.4),
                                .has_silu = activation == "silu"};
  const auto refuse = [](const char* key, const auto& value, const char* expected) {
    throw config_error(concat("arch airbench: ", key, " is ", value, "; expected ", expected));
  };
  if (!(options.width > 0 && options.width <= 64)) refuse("width", options.width, "more than 0, up to 64");
  if (!(options.norm_momentum > 0 && options.norm_momentum <= 1))
    refuse("norm-momentum", options.norm_momentum, "more than 0, up to 1");
  if (activation != "gelu" && activation != "silu") refuse("activation", in_quotes(activation), "gelu or silu");
  return options;
}

const Registered<ModelKind> kAirbench{
    "airbench",
    {"width", "activation", "norm-momentum"},
    "the network of airbench94 (Jordan 2024) for CIFAR-10: whitening filters from the data, then three blocks of two "
    "convolutions; width=1 multiplies their channels; activation=gelu, or silu, in the blocks; norm-momentum=0.4: how "
    "far BatchNorm's statistics move per step",
    [](const Spec& spec, const ModelShape& shape) {
      if (shape.height < kLeastSide || shape.width < kLeastSide)
        throw config_error(concat("arch airbench: pictures are ", shape.width, " x ", shape.height,
                                  "; expected at least ", kLeastSide, " x ", kLeastSide));
      return std::make_unique<Airbench>(airbench_options(spec), shape);
    }};

}  // namespace
}  // namespace penstock
