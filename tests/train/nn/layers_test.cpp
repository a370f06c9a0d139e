// --precision and --channels-last: what layers compute in, and that a scale of gradients changes nothing else.
#include "train/nn/layers.h"

#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include <map>
#include <optional>
#include <tuple>

#include "core/error.h"
#include "tests/support/testing.h"
#include "train/nn/batch_norm.h"
#include "train/nn/model.h"
#include "train/nn/rounding.h"
#include "train/run/run_precision.h"

namespace penstock {
namespace {

constexpr ModelShape kPrecise{.channels = 3, .height = 33, .width = 33, .classes = 5};
const std::vector<std::string> kArchsOfLayers{"lenet(batch-norm=true)",
                                              "mlp",
                                              "resnet18",
                                              "airbench(width=0.25)",
                                              "bag-of-tricks-resnet(width=0.25)",
                                              "vit(patch=11,width=32,depth=2,heads=2,mlp=48)",
                                              "convnext(widths=24:48,depths=1:2)"};

struct Pass {
  torch::Tensor logits;
  std::map<std::string, torch::Tensor> gradients;
};

Pass made_pass_of(const std::string& arch, const Precision& precision, torch::ScalarType images) {
  at::manual_seed(1);
  const auto model = ModelRegistry::make(parse_spec("arch", arch), kPrecise);
  for (auto& parameter : model->parameters()) {  // zeros and a layer scale of 1e-6 would hide what comes before them
    const at::NoGradGuard no_grad;
    if (parameter.abs().max().item<double>() < 1e-4) parameter.normal_(0, 0.1);
  }
  compute_in(*model, precision);
  at::manual_seed(2);
  Pass pass;
  pass.logits = model->forward(torch::randn({6, 3, 33, 33}).to(images));
  torch::cross_entropy_loss(pass.logits, torch::tensor({0, 1, 2, 3, 4, 0}, torch::kInt64)).backward();
  for (const auto& item : model->named_parameters())
    if (item.value().grad().defined()) pass.gradients[item.key()] = item.value().grad();
  return pass;
}

/// Made once for each of its arguments: half precision takes seconds where the processor does not compute in it.
const Pass& pass_of(const std::string& arch, const Precision& precision, torch::ScalarType images = torch::kFloat32) {
  using Key = std::tuple<std::string, std::optional<torch::ScalarType>, bool, double, torch::ScalarType>;
  static std::map<Key, Pass> passes;
  const Key key{arch, precision.dtype, precision.is_channels_last, precision.gradient_scale, images};
  const auto found = passes.find(key);
  return found != passes.end() ? found->second
                               : passes.emplace(key, made_pass_of(arch, precision, images)).first->second;
}

double relative(const torch::Tensor& one, const torch::Tensor& other) {
  return ((one - other).norm() / other.norm()).item<double>();
}

TEST(PrecisionTest, HalfPrecisionRoundsAndLeavesParametersGradientsAndLogitsF32) {
  for (const auto& arch : kArchsOfLayers) {
    const Pass &whole = pass_of(arch, {}), &half = pass_of(arch, {.dtype = torch::kBFloat16});
    EXPECT_EQ(half.logits.scalar_type(), torch::kFloat32) << arch;
    EXPECT_FALSE(half.logits.equal(whole.logits)) << arch;
    EXPECT_LT(relative(half.logits, whole.logits), 0.1) << arch;
    for (const auto& [name, gradient] : half.gradients) EXPECT_EQ(gradient.scalar_type(), torch::kFloat32) << name;
    const std::string head = arch == "resnet18" ? "fc.weight"
                             : arch == "mlp"    ? "fc2.weight"
                             : arch[0] == 'l'   ? "fc3.weight"
                             : arch[0] == 'v'   ? "heads.head.weight"
                             : arch[0] == 'c'   ? "classifier.2.weight"
                                                : "head.weight";
    EXPECT_LT(relative(half.gradients.at(head), whole.gradients.at(head)), 0.2) << arch;
  }
}

TEST(PrecisionTest, ImagesThatComeRoundedGiveTheSameBits) {
  for (const auto& arch : kArchsOfLayers) {
    EXPECT_TRUE(ModelRegistry::make(parse_spec("arch", arch), kPrecise)->rounds_images()) << arch;
    const Precision half{.dtype = torch::kBFloat16, .gradient_scale = 1024};
    const Pass &given = pass_of(arch, half), &rounded = pass_of(arch, half, torch::kBFloat16);
    EXPECT_TRUE(given.logits.equal(rounded.logits)) << arch;
    ASSERT_EQ(given.gradients.size(), rounded.gradients.size());
    for (const auto& [name, gradient] : given.gradients)
      EXPECT_TRUE(gradient.equal(rounded.gradients.at(name))) << arch << " " << name;
  }
}

class AnyModel final : public Model {};

TEST(PrecisionTest, RowsAreHalvesWhereTheModelRoundsThemFirst) {
  const auto lenet = ModelRegistry::make(parse_spec("arch", "lenet"), kPrecise);
  EXPECT_EQ(layout_of_rows({}, *lenet), Layout::kF32Nchw);
  EXPECT_EQ(layout_of_rows({.dtype = torch::kBFloat16}, *lenet), Layout::kBf16Nchw);
  EXPECT_EQ(layout_of_rows({.dtype = torch::kHalf}, *lenet), Layout::kF16Nchw);
  EXPECT_EQ(layout_of_rows({.dtype = torch::kHalf}, AnyModel()), Layout::kF32Nchw);
}

/// bf16 has the range of f32, so that a power of two is taken off again to the bit.
TEST(PrecisionTest, TheScaleOfGradientsIsTakenOffInEveryLayer) {
  for (const auto& arch : kArchsOfLayers) {
    const Pass& plain = pass_of(arch, {.dtype = torch::kBFloat16});
    const Pass& scaled = pass_of(arch, {.dtype = torch::kBFloat16, .gradient_scale = 1024});
    EXPECT_TRUE(plain.logits.equal(scaled.logits)) << arch;
    EXPECT_EQ(plain.gradients.size(), scaled.gradients.size());
    for (const auto& [name, gradient] : plain.gradients)
      EXPECT_TRUE(scaled.gradients.at(name).allclose(gradient, 1e-6, 1e-12)) << arch << " " << name;
  }
}

/// Gradients of 2^-26 are 0 in f16, and arrive with a scale.
TEST(PrecisionTest, AScaleBringsSmallGradientsThroughHalfPrecision) {
  for (const double scale : {1.0, 4096.0}) {
    auto x = torch::ones({3}).requires_grad_();
    const auto half = detail::rounded(x, torch::kHalf, scale);
    detail::widened(half * 1, torch::kFloat32, scale).backward(torch::full({3}, 0x1p-26));
    EXPECT_TRUE(x.grad().equal(torch::full({3}, scale == 1 ? 0 : 0x1p-26))) << scale;
  }
}

/// 20 times as large as normalised pictures, and a scale of 65536: the weights become infinite in the next update.
TEST(PrecisionTest, AScaleThatIsTooLargeOverflowsTheGradientsOfF16) {
  const auto is_finite = [](double scale) {
    at::manual_seed(1);
    const auto model = ModelRegistry::make(parse_spec("arch", "mlp"), kPrecise);
    compute_in(*model, {.dtype = torch::kHalf, .gradient_scale = scale});
    const auto logits = model->forward(20 * torch::randn({6, 3, 33, 33}));
    EXPECT_TRUE(logits.isfinite().all().item<bool>());
    torch::cross_entropy_loss(logits, torch::tensor({0, 1, 2, 3, 4, 0}, torch::kInt64)).backward();
    return model->named_parameters()["fc1.weight"].grad().isfinite().all().item<bool>();
  };
  EXPECT_TRUE(is_finite(64));
  EXPECT_FALSE(is_finite(65536));
}

TEST(PrecisionTest, ChannelsLastChangesTheMemoryAndNotTheNumbers) {
  for (const std::string arch : {"resnet18", "airbench(width=0.25)", "bag-of-tricks-resnet(width=0.25)"}) {
    const Pass &plain = pass_of(arch, {}), &last = pass_of(arch, {.is_channels_last = true});
    EXPECT_LT(relative(last.logits, plain.logits), 1e-5) << arch;
    for (const auto& [name, gradient] : plain.gradients)
      EXPECT_LT(relative(last.gradients.at(name), gradient), 1e-3) << arch << " " << name;
  }
  Conv2d conv(torch::nn::Conv2dOptions(3, 8, 3));
  conv->compute_in({.is_channels_last = true});
  EXPECT_TRUE(conv(torch::randn({2, 3, 9, 9})).is_contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_TRUE(conv->weight.is_contiguous());  // modes cut and send parameters as they lie
}

/// LibTorch's own layer, as another's model may have it.
class ForeignModel final : public Model {
 public:
  ForeignModel() {
    torch::nn::Linear fc = register_module("fc", torch::nn::Linear(4, 2));
    add_block("fc", {"fc"}, [fc](const torch::Tensor& x) mutable { return fc(x.flatten(1)); });
  }
};

TEST(PrecisionTest, AFlagThatNoLayerKnowsIsRefused) {
  const auto refusal = [](const TrainOptions& options, const Model& model) {
    return message_of(ErrorKind::kConfig, [&] { check_layers(options, model); });
  };
  const auto mlp = ModelRegistry::make(parse_spec("arch", "mlp"), kPrecise);
  const auto lenet = ModelRegistry::make(parse_spec("arch", "lenet"), kPrecise);
  TrainOptions options;
  options.arch = "mlp";
  check_layers(options, *mlp);
  options.is_channels_last = true;
  check_layers(options, *lenet);
  EXPECT_EQ(refusal(options, *mlp),
            "--channels-last with --arch mlp: the model has no convolutions (penstock::Conv2d), so it would change "
            "nothing; expected a model that has them, or no --channels-last");
  options.is_channels_last = false;
  options.precision = "bf16";
  check_layers(options, *mlp);
  options.arch = "foreign";
  EXPECT_EQ(refusal(options, ForeignModel()),
            "--precision bf16 with --arch foreign: the model has no convolutions or linear layers (penstock::Conv2d, "
            "penstock::Linear), so it would change nothing; expected a model that has them, or no --precision bf16");
  options.precision = "tf32";
  check_layers(options, ForeignModel());
}

TEST(PrecisionTest, NamesAndScalesAreRead) {
  EXPECT_FALSE(parse_precision("f32").dtype || parse_precision("tf32").dtype);
  EXPECT_EQ(parse_precision("bf16").dtype, torch::kBFloat16);
  EXPECT_EQ(parse_precision("f16").gradient_scale, 65536);
  EXPECT_EQ(parse_precision("f16").growth_steps, 2000);
  EXPECT_EQ(parse_precision("f16(init=8,every=3)").gradient_scale, 8);
  EXPECT_EQ(parse_precision("f16(init=8,every=3)").growth_steps, 3);
  EXPECT_EQ(parse_precision("f16(scale=64)").gradient_scale, 64);
  EXPECT_FALSE(parse_precision("f16(scale=64)").adapts() || parse_precision("bf16").adapts());
  const auto refusal = [](const std::string& text) {
    return message_of(ErrorKind::kConfig, [&] { parse_precision(text); });
  };
  EXPECT_EQ(refusal("f16(scale=100)"), "--precision f16: scale is 100; expected a power of two from 1 to 65536");
  EXPECT_EQ(refusal("f16(init=3)"), "--precision f16: init is 3; expected a power of two from 1 to 65536");
  EXPECT_EQ(refusal("f16(every=0)"), "--precision f16: every is 0; expected 1 step or more");
  EXPECT_EQ(refusal("f16(scale=2,every=9)"),
            "--precision f16: has scale and every; expected one of them: a scale that is given stays as it is");
  EXPECT_NE(refusal("bf16(scale=2)").find("unknown key \"scale\""), std::string::npos);
  EXPECT_NE(refusal("fp16").find("did you mean \"f16\""), std::string::npos);
  TrainOptions options;
  options.precision = "f16";
  EXPECT_EQ(message_of(ErrorKind::kDevice, [&] { check_precision(options, torch::kCPU); }),
            "--precision f16: the processor does not compute so; expected --device cuda, or --precision f32 or bf16");
  options.mode = "ddp(compress=powersgd)";
  EXPECT_EQ(
      message_of(ErrorKind::kConfig, [&] { check_precision(options, torch::kCUDA); }),
      "--precision f16 with --mode ddp(compress=powersgd), which keeps the error of gradients, also of those that "
      "are not finite; expected a scale that stays, such as f16(scale=1024), or no compress=powersgd");
  options.precision = "f16(scale=1024)";
  check_precision(options, torch::kCUDA);
  options.precision = "bf16";
  check_precision(options, torch::kCPU);
  options.exact_shards = 8;
  EXPECT_EQ(message_of(ErrorKind::kConfig, [&] { check_precision(options, torch::kCPU); }),
            "--exact is 8 with --precision bf16, whose kernels differ between processors; expected one of the two");
}

}  // namespace
}  // namespace penstock
