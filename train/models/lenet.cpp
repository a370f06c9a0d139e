// lenet: two convolutions and three linear layers (LeCun, Bottou, Bengio, Haffner 1998, fig. 2), in today's form:
// rectified linear units and max pooling where the paper has scaled tanh and subsampling, and softmax on top. Pictures
// of 28 x 28 are zero-padded by 2, as in the paper's 32 x 32 inputs. It has 61,706 parameters at 1 x 28 x 28 with 10
// classes.
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "core/text.h"
#include "train/nn/batch_norm.h"
#include "train/nn/layers.h"
#include "train/nn/model.h"
#include "train/nn/relu_max_pool.h"

namespace penstock {
namespace {

// The smallest side of a picture, in pixels: conv2 gets side / 2 pixels and needs 6, so that 1 is left after pooling.
constexpr int64_t kMinSide = 12;

class LeNet final : public Model {
 public:
  LeNet(const ModelShape& shape, bool has_norms) {
    if (shape.height < kMinSide || shape.width < kMinSide)
      throw config_error(concat("arch lenet: pictures are ", shape.width, " x ", shape.height, "; expected at least ",
                                kMinSide, " x ", kMinSide));
    using torch::nn::Conv2dOptions;
    Conv2d conv1 = register_module("conv1", Conv2d(Conv2dOptions(shape.channels, 6, 5).padding(2)));
    Conv2d conv2 = register_module("conv2", Conv2d(Conv2dOptions(6, 16, 5)));
    const int64_t features = 16 * pooled_twice(shape.height) * pooled_twice(shape.width);
    Linear fc1 = register_module("fc1", Linear(features, 120));
    Linear fc2 = register_module("fc2", Linear(120, 84));
    Linear fc3 = register_module("fc3", Linear(84, shape.classes));

    if (has_norms) {
      add_normalized("conv1", conv1, "bn1", 6);
      add_normalized("conv2", conv2, "bn2", 16);
    } else {
      add_block("conv1", {"conv1"}, [conv1](const auto& x) mutable { return detail::relu_max_pool(conv1(x)); });
      add_block("conv2", {"conv2"}, [conv2](const auto& x) mutable { return detail::relu_max_pool(conv2(x)); });
    }
    add_block("fc1", {"fc1"}, [fc1](const torch::Tensor& x) mutable { return torch::relu(fc1(x.flatten(1))); });
    add_block("fc2", {"fc2"}, [fc2](const torch::Tensor& x) mutable { return torch::relu(fc2(x)); });
    add_block("fc3", {"fc3"}, [fc3](const torch::Tensor& x) mutable { return fc3(x); });
  }

  bool rounds_images() const override { return true; }

 private:
  void add_normalized(const std::string& name, Conv2d conv, const std::string& norm_name, int64_t channels) {
    BatchNorm2d norm = register_module(norm_name, BatchNorm2d(channels));
    add_block(name, {name, norm_name},
              [conv, norm](const torch::Tensor& x) mutable { return detail::relu_max_pool(norm(conv(x))); });
  }

  static int64_t pooled_twice(int64_t side) { return (side / 2 - 4) / 2; }
};

const Registered<ModelKind> kLenet{
    "lenet",
    {"batch-norm"},
    "LeNet-5 with ReLU and max pooling; for pictures of 12 x 12 pixels or more; with batch-norm=true BatchNorm follows "
    "each convolution",
    [](const Spec& spec, const ModelShape& shape) {
      return std::make_unique<LeNet>(shape, spec.get("batch-norm", false));
    }};

}  // namespace
}  // namespace penstock
