// vit and convnext: their sizes, first weights and what they refuse.
#include <gtest/gtest.h>

#include "core/error.h"
#include "tests/support/testing.h"
#include "train/nn/drop.h"
#include "train/nn/model.h"
#include "train/nn/module_names.h"

namespace penstock {
namespace {

constexpr ModelShape kSquare{.channels = 3, .height = 32, .width = 32, .classes = 7};

std::unique_ptr<Model> patch_model(const std::string& spec, const ModelShape& shape = kSquare) {
  at::manual_seed(1);
  return ModelRegistry::make(parse_spec("arch", spec), shape);
}

std::string refusal_of(const std::string& spec, const ModelShape& shape = kSquare) {
  return message_of(ErrorKind::kConfig, [&] { patch_model(spec, shape); });
}

const std::string kTinyVit = "vit(patch=8,width=16,depth=3,heads=2,mlp=24";

TEST(VitTest, ParameterCountsAreThePublishedOnes) {
  const ModelShape imagenet{.channels = 3, .height = 224, .width = 224, .classes = 1000};
  EXPECT_EQ(count_parameters(*patch_model("vit-s16", imagenet)).all, 22'050'664);
  EXPECT_EQ(count_parameters(*patch_model("vit-b16", imagenet)).all, 86'567'656);
  EXPECT_EQ(count_parameters(*patch_model("convnext-tiny", imagenet)).all, 28'589'128);
}

/// Those of torchvision: Glorot and Bengio 2010 for products, 0.02 for positions, 0 for the class token and the head.
TEST(VitTest, FirstWeightsAreDrawnAsTorchvisionDrawsThem) {
  const auto parameters = patch_model("vit(patch=8,width=64,depth=1,heads=2,mlp=192)")->named_parameters();
  const auto deviation = [&](const std::string& name) { return parameters[name].std().item<double>(); };
  const std::string layer = "encoder.layers.encoder_layer_0.";
  EXPECT_NEAR(deviation("conv_proj.weight"), std::sqrt(1.0 / (3 * 8 * 8)), 2e-3);
  EXPECT_NEAR(deviation("encoder.pos_embedding"), 0.02, 2e-3);
  EXPECT_NEAR(deviation(layer + "self_attention.in_proj_weight"), std::sqrt(2.0 / (64 + 192)), 2e-3);
  EXPECT_NEAR(deviation(layer + "self_attention.out_proj.weight"), std::sqrt(1.0 / 3 / 64), 2e-3);
  EXPECT_NEAR(deviation(layer + "mlp.0.weight"), std::sqrt(2.0 / (64 + 192)), 2e-3);
  EXPECT_NEAR(deviation(layer + "mlp.3.bias"), 1e-6, 3e-7);
  for (const char* zeros : {"class_token", "heads.head.weight", "heads.head.bias", "conv_proj.bias"})
    EXPECT_TRUE(parameters[zeros].eq(0).all().item<bool>()) << zeros;
}

TEST(VitTest, ConvNextWeightsAreDrawnAsTorchvisionDrawsThem) {
  const auto parameters = patch_model("convnext(widths=32:64,depths=1:1)")->named_parameters();
  for (const char* name : {"features.0.0.weight", "features.1.0.block.3.weight", "features.2.1.weight"})
    EXPECT_NEAR(parameters[name].std().item<double>(), 0.02, 2e-3) << name;
  EXPECT_TRUE(parameters["features.3.0.layer_scale"].eq(1e-6F).all().item<bool>());
  EXPECT_TRUE(parameters["features.1.0.block.0.bias"].eq(0).all().item<bool>());
}

/// sin and cos of the column, then of the row, at 1 and 1 / 10,000 of a width of 8.
TEST(VitTest, FixedPositionsAreSinesAndCosinesOfColumnAndRow) {
  const auto model = patch_model("vit(patch=8,width=8,depth=1,heads=1,mlp=4,positions=sincos2d,pool=mean)",
                                 {.channels = 1, .height = 16, .width = 24, .classes = 3});
  const auto positions = model->named_parameters()["encoder.pos_embedding"];
  EXPECT_FALSE(positions.requires_grad());
  EXPECT_EQ(positions.sizes(), torch::IntArrayRef({1, 6, 8}));
  const auto last = torch::tensor({std::sin(2.0), std::sin(2e-4), std::cos(2.0), std::cos(2e-4), std::sin(1.0),
                                   std::sin(1e-4), std::cos(1.0), std::cos(1e-4)});
  EXPECT_TRUE(positions[0][5].allclose(last, 0, 1e-6));
  EXPECT_FALSE(model->named_parameters().contains("class_token"));
  const auto token = patch_model("vit(patch=8,width=8,depth=1,heads=1,mlp=4,positions=sincos2d)");
  EXPECT_TRUE(token->named_parameters()["encoder.pos_embedding"][0][0].eq(0).all().item<bool>());
}

TEST(VitTest, TheFirstBlockIsFrozenWithItsTokenAndPositions) {
  const auto model = patch_model(kTinyVit + ")");
  freeze_layers(*model, "conv_proj,encoder.layers.encoder_layer_1");
  for (const auto& item : model->named_parameters()) {
    const std::string& name = item.key();
    const bool is_frozen = name == "class_token" || name == "encoder.pos_embedding" || name.starts_with("conv_proj") ||
                           name.find("encoder_layer_1") != std::string::npos;
    EXPECT_EQ(item.value().requires_grad(), !is_frozen) << name;
  }
}

TEST(VitTest, AFrozenLayerDropsNothing) {
  const auto model = patch_model(kTinyVit + ",drop-path=0.9,dropout=0.5)");
  EXPECT_TRUE(has_drops(*model));
  freeze_layers(*model, "conv_proj,encoder");
  EXPECT_FALSE(has_drops(*model));
}

TEST(VitTest, SizesThatDoNotFitAreNamed) {
  EXPECT_EQ(refusal_of("vit-s16", {.channels = 3, .height = 224, .width = 200, .classes = 7}),
            "arch vit-s16: pictures are 200 x 224 and patches 16 x 16; expected pictures whose sides 16 divides");
  EXPECT_EQ(refusal_of("vit(patch=8,width=30,heads=4)"),
            "arch vit: width is 30 with 4 heads; expected a width that 4 divides");
  EXPECT_EQ(refusal_of("vit(patch=8,width=6,heads=1,positions=sincos2d)"),
            "arch vit: width is 6 with positions=sincos2d; expected 8 or more, and a number that 4 divides");
  EXPECT_EQ(refusal_of("vit(patch=0)"), "arch vit: patch is 0; expected 1 to 65536");
  EXPECT_EQ(refusal_of("vit-s16(pool=max)"), "arch vit-s16: pool is \"max\"; expected token or mean");
  EXPECT_EQ(refusal_of("vit-s16(drop-path=1)"), "arch vit-s16: drop-path is 1; expected 0 to below 1");
  EXPECT_EQ(refusal_of("convnext-tiny", {.channels = 3, .height = 31, .width = 40, .classes = 7}),
            "arch convnext-tiny: pictures are 40 x 31; expected at least 32 x 32");
  EXPECT_EQ(refusal_of("convnext(widths=8:16,depths=1)"),
            "arch convnext: has 2 widths and 1 depths; expected as many of both, 1 to 16");
  EXPECT_EQ(refusal_of("convnext(widths=8:1.5,depths=1:1)"),
            "arch convnext: widths has 1.5; expected whole numbers from 1 to 65536");
}

}  // namespace
}  // namespace penstock
