// Run precision: what half precision does not reach is named.
#include "train/run/run_precision.h"

#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>

#include "train/nn/layers.h"
#include "train/nn/model.h"

namespace penstock {
namespace {

TrainOptions options_of(const std::string& precision) {
  TrainOptions options;
  options.precision = precision;
  options.arch = "mixed";
  return options;
}

/// As a plug-in may have it.
class Mixed final : public Model {
 public:
  Mixed() {
    own = register_module("own", torch::nn::Conv2d(3, 4, 3));
    known = register_module("known", penstock::Conv2d(torch::nn::Conv2dOptions(3, 4, 3)));
    register_module("norm", torch::nn::BatchNorm2d(4));
    register_parameter("table", torch::zeros({2, 2}));
    compute_in(*this, parse_precision("bf16"));
  }
  torch::nn::Conv2d own{nullptr};
  penstock::Conv2d known{nullptr};
};

TEST(RunPrecisionTest, ModulesWhoseWeightsStayInF32AreNamed) {
  Mixed model;
  const auto x = torch::ones({1, 3, 5, 5});
  ASSERT_EQ(model.own(x).scalar_type(), torch::kFloat32);
  ASSERT_EQ(model.known(x).scalar_type(), torch::kBFloat16);
  for (const std::string precision : {"bf16", "f16"})
    EXPECT_EQ(left_in_f32(options_of(precision), model),
              "--precision " + precision +
                  " with --arch mixed: f32 stay the weights of the model itself, own; only penstock::Conv2d, "
                  "Linear and Attention compute in half precision");
  for (const std::string precision : {"f32", "tf32"}) EXPECT_EQ(left_in_f32(options_of(precision), model), "");
}

TEST(RunPrecisionTest, HalfPrecisionReachesAllLayersOfTheModelsThatThereAre) {
  for (const char* arch : {"airbench", "lenet", "mlp", "resnet18", "resnet50", "bag-of-tricks-resnet"}) {
    const auto model = make_model_of(arch, {.channels = 3, .height = 32, .width = 32});
    EXPECT_EQ(left_in_f32(options_of("bf16"), *model), "") << arch;
  }
}

}  // namespace
}  // namespace penstock
