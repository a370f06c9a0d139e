// mlp: linear layers on the flattened picture, with rectified linear units between them.
#include <torch/nn/modules/linear.h>

#include <cmath>

#include "core/text.h"
#include "train/nn/initial_weights.h"
#include "train/nn/layers.h"
#include "train/nn/model.h"

namespace penstock {
namespace {

class Mlp final : public Model {
 public:
  Mlp(const std::vector<double>& hidden, const ModelShape& shape) {
    int64_t width = shape.channels * shape.height * shape.width;
    int layer = 1;
    for (const double units : hidden) {
      if (units < 1 || units != std::floor(units))
        throw config_error(
            concat("arch mlp: hidden has ", units, "; expected widths of 1 or more, such as hidden=256:128"));
      auto linear = add_linear(layer++, width, static_cast<int64_t>(units));
      add_block(linear.first, {linear.first},
                [fc = linear.second](const torch::Tensor& x) mutable { return torch::relu(fc(x.flatten(1))); });
      width = static_cast<int64_t>(units);
    }
    auto linear = add_linear(layer, width, shape.classes);
    add_block(linear.first, {linear.first},
              [fc = linear.second](const torch::Tensor& x) mutable { return fc(x.flatten(1)); });
  }

  bool rounds_images() const override { return true; }

 private:
  std::pair<std::string, Linear> add_linear(int layer, int64_t inputs, int64_t outputs) {
    const std::string name = concat("fc", layer);
    const auto linear = register_module(name, Linear(inputs, outputs));
    detail::drawn(name, *linear);
    return {name, linear};
  }
};

const Registered<ModelKind> kMlp{"mlp",
                                 {"hidden"},
                                 "linear layers with ReLU between them; hidden=WIDTHS of the hidden layers, for "
                                 "example hidden=256:128 (default 128)",
                                 [](const Spec& spec, const ModelShape& shape) {
                                   return std::make_unique<Mlp>(spec.get("hidden", std::vector<double>{128}), shape);
                                 }};

}  // namespace
}  // namespace penstock
