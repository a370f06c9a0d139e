// convnext, convnext-tiny: convolutional networks with the habits of transformers.
#include <torch/nn/init.h>

#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/text.h"
#include "train/nn/drop.h"
#include "train/nn/initial_weights.h"
#include "train/nn/layers.h"
#include "train/nn/model.h"

namespace penstock {
namespace {

namespace init = torch::nn::init;
using torch::Tensor, torch::nn::Conv2dOptions;
using Modules = std::shared_ptr<torch::nn::Module>;

struct ConvNextOptions {
  std::vector<int64_t> widths, depths;  // channels and blocks, one entry per stage of the network
  double drop_path = 0;
};

/// The initial values of convolutions and linear layers.
template <class Layer>
Layer drawn_layer(const std::string& path, Layer layer) {
  detail::draws_later(layer->weight);
  detail::draw(path + ".weight", layer->weight, detail::truncated_normal(0.02));
  detail::draw(path + ".bias", layer->bias, [](Tensor bias) { init::zeros_(std::move(bias)); });
  return layer;
}

Conv2d convolution(const std::string& path, const Conv2dOptions& options) { return drawn_layer(path, Conv2d(options)); }

Tensor channels_last(const Tensor& maps) { return maps.permute({0, 2, 3, 1}).contiguous(); }
Tensor channels_first(const Tensor& maps) { return maps.permute({0, 3, 1, 2}); }

/// x + layer_scale * linear(gelu(linear(norm(conv(x))))), with a convolution of 7 x 7 for each channel.
class ConvNextBlockImpl : public torch::nn::Module {
 public:
  ConvNextBlockImpl(const std::string& path, int64_t width, double drop_rate, int64_t index) {
    scale_ = register_parameter("layer_scale", torch::empty({width, 1, 1}));
    detail::draw(path + ".layer_scale", scale_, [](Tensor scale) { init::constant_(std::move(scale), 1e-6); });
    auto& layers = *register_module("block", std::make_shared<torch::nn::Module>());
    conv_ = layers.register_module(
        "0", convolution(path + ".block.0", Conv2dOptions(width, width, 7).padding(3).groups(width)));
    norm_ = layers.register_module("2", LayerNorm(width));
    hidden_ = layers.register_module("3", drawn_layer(path + ".block.3", Linear(width, 4 * width)));
    last_ = layers.register_module("5", drawn_layer(path + ".block.5", Linear(4 * width, width)));
    drop_path_ = register_module("stochastic_depth", DropPath(drop_rate, index));
  }

  Tensor forward(const Tensor& x) {
    const auto maps = norm_(channels_last(conv_(channels_first(x))));
    const auto y = last_(torch::gelu(hidden_->forward_rounded(maps)));
    return x + drop_path_(y * scale_.flatten());
  }

 private:
  Tensor scale_;
  Conv2d conv_{nullptr};
  LayerNorm norm_{nullptr};
  Linear hidden_{nullptr}, last_{nullptr};
  DropPath drop_path_{nullptr};
};
TORCH_MODULE(ConvNextBlock);

/// conv(norm(x)), with a convolution of 2 x 2 that halves the sides.
class HalvingImpl : public torch::nn::Module, public InPrecision {
 public:
  HalvingImpl(const std::string& path, int64_t inputs, int64_t outputs)
      : norm_(register_module("0", LayerNorm(inputs))),
        conv_(register_module("1", convolution(path + ".1", Conv2dOptions(inputs, outputs, 2).stride(2)))) {}

  Tensor forward(const Tensor& x) {
    return widened(channels_last(conv_(channels_first(norm_(x)))), norm_->weight.scalar_type());
  }

 private:
  LayerNorm norm_;
  Conv2d conv_;
};
TORCH_MODULE(Halving);

/// The network of Liu et al. 2022, "A ConvNet for the 2020s", with torchvision's names, shapes, initialisation and eps
/// of LayerNorm: patches of 4 x 4, then in each stage blocks, and between stages LayerNorm and a convolution of 2 x 2
/// that halves the sides. `drop-path`: stochastic depth, whose rate rises from 0 at the first block to the given one at
/// the last (torchvision trains convnext-tiny with 0.1; it is 0 here unless asked for).
///
/// Maps are N x H x W x C between all blocks, in which LayerNorm and linear layers want them and convolutions take them
/// without a copy. So each block gets and gives contiguous tensors, and a cut changes no bit.
///
/// Blocks: features.0, each block of the network, what is between its stages, classifier.0 with the pooling, and
/// classifier.2.
class ConvNext final : public Model {
 public:
  ConvNext(const ConvNextOptions& options, const ModelShape& shape)
      : features_(register_module("features", std::make_shared<torch::nn::Module>())) {
    add_patches(shape.channels, options.widths[0]);
    const int64_t count = std::accumulate(options.depths.begin(), options.depths.end(), int64_t{0});
    int64_t index = 0;
    for (size_t stage = 0; stage < options.widths.size(); ++stage) {
      const int64_t width = options.widths[stage];
      if (stage > 0) add_halving(2 * stage, options.widths[stage - 1], width);
      const std::string number = std::to_string(2 * stage + 1);
      auto& blocks = *features_->register_module(number, std::make_shared<torch::nn::Module>());
      for (int64_t b = 0; b < options.depths[stage]; ++b, ++index) {
        const std::string path = concat("features.", number, ".", b);
        const double rate = detail::drop_path_rate(options.drop_path, index, count);
        ConvNextBlock block = blocks.register_module(std::to_string(b), ConvNextBlock(path, width, rate, index));
        add_block(path, {path}, [block](const Tensor& x) mutable { return block(x); });
      }
    }
    add_head(options.widths.back(), shape.classes);
  }

  bool rounds_images() const override { return true; }

 private:
  void add_patches(int64_t channels, int64_t width) {
    auto& stem = *features_->register_module("0", std::make_shared<torch::nn::Module>());
    Conv2d conv = stem.register_module("0", convolution("features.0.0", Conv2dOptions(channels, width, 4).stride(4)));
    LayerNorm norm = stem.register_module("1", LayerNorm(width));
    add_block("features.0", {"features.0"},
              [conv, norm](const Tensor& x) mutable { return norm(channels_last(conv(x))); });
  }

  void add_halving(size_t number, int64_t inputs, int64_t outputs) {
    const std::string path = concat("features.", number);
    Halving halving = features_->register_module(std::to_string(number), Halving(path, inputs, outputs));
    add_block(
        path, {path}, [halving](const Tensor& x) mutable { return halving(x); }, /*has_rate_of_next=*/true);
  }

  void add_head(int64_t width, int64_t classes) {
    auto& classifier = *register_module("classifier", std::make_shared<torch::nn::Module>());
    LayerNorm norm = classifier.register_module("0", LayerNorm(width));
    add_block(
        "classifier.0", {"classifier.0"},
        [norm](const Tensor& x) mutable {
          return norm(x.mean({1, 2}));
        },
        /*has_rate_of_next=*/true);
    Linear linear = classifier.register_module("2", drawn_layer("classifier.2", Linear(width, classes)));
    add_block("classifier.2", {"classifier.2"}, [linear](const Tensor& x) mutable { return linear(x); });
  }

  Modules features_;
};

constexpr double kMost = 65'536;

/// The whole numbers under `key`, one for each stage of the network.
std::vector<int64_t> numbers_of(const Spec& spec, const char* key, const std::vector<double>& fallback) {
  std::vector<int64_t> numbers;
  for (const double number : spec.get(key, fallback)) {
    if (!(number >= 1 && number <= kMost && number == std::floor(number)))
      throw config_error(
          concat(spec.where(), ": ", key, " has ", number, "; expected whole numbers from 1 to ", kMost));
    numbers.push_back(static_cast<int64_t>(number));
  }
  return numbers;
}

std::unique_ptr<Model> make_convnext(const ConvNextOptions& options, const Spec& spec, const ModelShape& shape) {
  const size_t stages = options.widths.size();
  constexpr size_t kMostStages = 16;
  if (stages == 0 || stages > kMostStages || options.depths.size() != stages)
    throw config_error(concat(spec.where(), ": has ", stages, " widths and ", options.depths.size(),
                              " depths; expected as many of both, 1 to ", kMostStages));
  const int64_t least = int64_t{4} << (stages - 1);
  if (shape.height < least || shape.width < least)
    throw config_error(concat(spec.where(), ": pictures are ", shape.width, " x ", shape.height, "; expected at least ",
                              least, " x ", least));
  return std::make_unique<ConvNext>(options, shape);
}

const std::vector<double> kTinyWidths{96, 192, 384, 768}, kTinyDepths{3, 3, 9, 3};

const Registered<ModelKind> kConvNext{
    "convnext",
    {"widths", "depths", "drop-path"},
    "a ConvNeXt with torchvision's parameter names: widths=96:192:384:768,depths=3:3:9:3 of its stages, and "
    "drop-path=0, the rate of stochastic depth of the last block; for pictures of 4 x 4 pixels or more, and "
    "twice that for each stage after the first: 32 x 32 with four",
    [](const Spec& spec, const ModelShape& shape) {
      return make_convnext({.widths = numbers_of(spec, "widths", kTinyWidths),
                            .depths = numbers_of(spec, "depths", kTinyDepths),
                            .drop_path = detail::drop_rate(spec, "drop-path")},
                           spec, shape);
    }};

const Registered<ModelKind> kConvNextTiny{
    "convnext-tiny",
    {"drop-path"},
    "convnext of 29 million parameters: drop-path=0; for pictures of 32 x 32 pixels or more",
    [](const Spec& spec, const ModelShape& shape) {
      return make_convnext(
          {.widths = {96, 192, 384, 768}, .depths = {3, 3, 9, 3}, .drop_path = detail::drop_rate(spec, "drop-path")},
          spec, shape);
    }};

}  // namespace
}  // namespace penstock
