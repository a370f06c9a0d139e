// bag-of-tricks-resnet: the residual network of nine layers for CIFAR-10 of "How to train your ResNet".
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/text.h"
#include "train/models/whitening.h"
#include "train/nn/batch_norm.h"
#include "train/nn/initial_weights.h"
#include "train/nn/layers.h"
#include "train/nn/model.h"

namespace penstock {
namespace {

using torch::Tensor;
using torch::nn::Conv2dOptions, torch::nn::LinearOptions, torch::nn::Sequential;

/// conv, max pooling by 2 if it `pools`, BatchNorm whose factor stays 1, CELU.
class TricksConvImpl : public torch::nn::Module {
 public:
  TricksConvImpl(int64_t inputs, int64_t outputs, int64_t kernel, bool pools)
      : conv_(register_module("conv", Conv2d(Conv2dOptions(inputs, outputs, kernel).padding(kernel / 2).bias(false)))),
        norm_(register_module("norm", BatchNorm2d(outputs))),
        pools_(pools) {
    norm_->weight.set_requires_grad(false);
  }

  Tensor forward(const Tensor& x) {
    auto y = conv_(x);
    if (pools_) y = torch::max_pool2d(y, 2);
    y = norm_(y);
    return torch::celu_(y, kAlpha);
  }

 private:
  static constexpr double kAlpha = 0.3;

  Conv2d conv_;
  BatchNorm2d norm_;
  bool pools_;
};
TORCH_MODULE(TricksConv);

/// The network of Page 2019, "How to train your ResNet", part 8, "Bag of tricks", as his program bag_of_tricks.ipynb
/// ends with it; `width` multiplies the channels:
///
///     prep      whitening filters of 3 x 3, which are not trained; conv 1 x 1 to 64   (whiten=false: conv 3 x 3 to 64)
///     layer1    conv 3 x 3 to 128, max pooling by 2       residual1  x + conv(conv(x))
///     layer2    conv 3 x 3 to 256, max pooling by 2
///     layer3    conv 3 x 3 to 512, max pooling by 2       residual3  x + conv(conv(x))
///     head      max pooling of the whole map; linear without bias; logits / 16
///
/// After each trained convolution, and its pooling, come BatchNorm and CELU (Barron 2017, arXiv:1704.07483). The text
/// of part 8 has alpha 0.075 and factors of BatchNorm that stay 1/4; this is 1/4 of CELU with alpha 0.3 and factors of
/// 1, which the program has. The earlier parts have ReLU, pooling after it, and logits / 8.
///
/// Deviations: BatchNorm takes its statistics from all rows that a rank has in a micro-batch, in the source from 32 at
/// a time ("ghost" norm: 16 pieces of a batch of 512), which here are those of `single(accumulate=16)`; the filters are
/// those of 10,000 pictures as --seed shuffles them, there of the first 10,000; the last pooling takes the whole map,
/// which with pictures of 32 x 32 is the 4 x 4 of the source, so that pictures may have any size.
class BagOfTricksResNet final : public Model {
 public:
  BagOfTricksResNet(double width, bool whitens, const ModelShape& shape) : width_(width), whitens_(whitens) {
    const int64_t prep = scaled(64), layer1 = scaled(128), layer2 = scaled(256), layer3 = scaled(512);
    add_prep(shape.channels, prep);
    add_layer("layer1", prep, layer1);
    add_residual("residual1", layer1);
    add_layer("layer2", layer1, layer2);
    add_layer("layer3", layer2, layer3);
    add_residual("residual3", layer3);
    Linear head = register_module("head", Linear(LinearOptions(layer3, shape.classes).bias(false)));
    detail::drawn("head", *head);
    add_block("head", {"head"}, [head](const Tensor& x) mutable {
      return head(torch::max_pool2d(x, {x.size(2), x.size(3)}).flatten(1)) / 16.0;
    });
  }

  int64_t initial_image_count() const override { return whitens_ ? 10'000 : 0; }
  NamedTensors initial_weights(const NextImages& next_images) const override {
    if (!whitens_) return {};
    const auto filters = detail::whitening_filters(next_images, kSide, /*eps=*/1e-2);
    return {{"whiten.weight", filters.narrow(0, 0, filters.size(0) / 2)}};  // without their negatives
  }
  bool rounds_images() const override { return true; }

 private:
  static constexpr int64_t kSide = 3;

  int64_t scaled(int64_t channels) const {
    return std::max<int64_t>(1, std::llround(static_cast<double>(channels) * width_));
  }

  TricksConv add_conv(const std::string& name, const TricksConv& conv) {
    register_module(name, conv);
    detail::drawn(name, *conv);
    return conv;
  }

  /// The whitening filters are no stage of their own: a part of a pipeline has something to train.
  void add_prep(int64_t inputs, int64_t outputs) {
    if (!whitens_) {
      TricksConv conv = add_conv("prep", TricksConv(inputs, outputs, 3, /*pools=*/false));
      return add_block("prep", {"prep"}, [conv](const Tensor& x) mutable { return conv(x); });
    }
    const int64_t filters = inputs * kSide * kSide;
    Conv2d whiten =
        register_module("whiten", Conv2d(Conv2dOptions(inputs, filters, kSide).padding(kSide / 2).bias(false)));
    whiten->weight.set_requires_grad(false);
    detail::drawn("whiten", *whiten);
    TricksConv conv = add_conv("prep", TricksConv(filters, outputs, 1, /*pools=*/false));
    add_block("prep", {"whiten", "prep"}, [whiten, conv](const Tensor& x) mutable { return conv(whiten(x)); });
  }

  void add_layer(const std::string& name, int64_t inputs, int64_t outputs) {
    TricksConv conv = add_conv(name, TricksConv(inputs, outputs, 3, /*pools=*/true));
    add_block(name, {name}, [conv](const Tensor& x) mutable { return conv(x); });
  }

  void add_residual(const std::string& name, int64_t channels) {
    Sequential convs = register_module(name, Sequential());
    for (int number = 0; number < 2; ++number) {
      TricksConv conv(channels, channels, 3, /*pools=*/false);
      convs->push_back(conv);
      detail::drawn(concat(name, ".", number), *conv);
    }
    add_block(name, {name}, [convs](const Tensor& x) mutable { return x + convs->forward(x); });
  }

  double width_;
  bool whitens_;
};

constexpr int64_t kLeastTricksSide = 8;  // 1 after three poolings

const Registered<ModelKind> kBagOfTricksResNet{
    "bag-of-tricks-resnet",
    {"width", "whiten"},
    "the residual network of nine layers for CIFAR-10 of \"How to train your ResNet\" (Page 2019): whitening filters "
    "from the data unless whiten=false; width=1 multiplies the channels",
    [](const Spec& spec, const ModelShape& shape) {
      const double width = spec.get("width", 1.0);
      if (!(width > 0 && width <= 64))
        throw config_error(concat("arch bag-of-tricks-resnet: width is ", width, "; expected more than 0, up to 64"));
      if (shape.height < kLeastTricksSide || shape.width < kLeastTricksSide)
        throw config_error(concat("arch bag-of-tricks-resnet: pictures are ", shape.width, " x ", shape.height,
                                  "; expected at least ", kLeastTricksSide, " x ", kLeastTricksSide));
      return std::make_unique<BagOfTricksResNet>(width, spec.get("whiten", true), shape);
    }};

}  // namespace
}  // namespace penstock
