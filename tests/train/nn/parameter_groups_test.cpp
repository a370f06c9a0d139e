// Biases with a learning rate and a weight decay of their own, and blocks with a learning rate of their own.
#include "train/nn/parameter_groups.h"

#include <gtest/gtest.h>

#include <set>

#include "core/error.h"
#include "tests/train/rank_threads.h"
#include "tests/train/strategy_batches.h"

namespace penstock {
namespace {

TEST(BiasesTest, ParametersOfOneDimensionGetTheirOwnNumbers) {
  at::manual_seed(1);
  const auto model =
      ModelRegistry::make(parse_spec("arch", "resnet18"), ModelShape{.channels = 3, .height = 32, .width = 32});
  std::map<std::string, double> factors{{"fc.bias", 0.5}, {"fc.weight", 3}};
  scale_biases(*model, 4, factors);
  EXPECT_EQ(factors.at("fc.bias"), 2);
  EXPECT_EQ(factors.at("fc.weight"), 3);
  EXPECT_EQ(factors.at("bn1.weight"), 4);
  EXPECT_FALSE(factors.contains("conv1.weight"));
  const auto decays = bias_decays(*model, 0.25);
  EXPECT_EQ(decays.at("layer1.0.bn1.bias"), 0.25);
  EXPECT_FALSE(decays.contains("fc.weight"));
  EXPECT_TRUE(bias_decays(*model, -1).empty());
  EXPECT_EQ(bias_decays(*model, 0).size(), factors.size() - 1);
}

/// lenet's blocks with parameters are conv1, conv2, fc1, fc2 and fc3; resnet18's begin with the stem, of two modules.
TEST(LayerDecayTest, EachBlockHasTheRateOfTheNextTimesTheDecay) {
  const auto factors_of = [](const char* arch, std::map<std::string, double> factors) {
    const auto model =
        ModelRegistry::make(parse_spec("arch", arch), ModelShape{.channels = 3, .height = 32, .width = 32});
    decay_by_layer(*model, 0.5, factors);
    EXPECT_EQ(factors.size(), model->named_parameters().size());
    return factors;
  };
  const auto resnet = factors_of("resnet18", {{"fc.bias", 3}, {"conv1.weight", 4}});
  EXPECT_EQ(resnet.at("fc.bias"), 3);
  EXPECT_EQ(resnet.at("fc.weight"), 1);
  EXPECT_EQ(resnet.at("layer4.1.conv2.weight"), 0.5);
  EXPECT_EQ(resnet.at("layer4.0.conv1.weight"), 0.25);
  EXPECT_EQ(resnet.at("layer1.0.bn1.bias"), 1.0 / 256);
  EXPECT_EQ(resnet.at("bn1.weight"), 1.0 / 512);
  EXPECT_EQ(resnet.at("conv1.weight"), 4.0 / 512);
  std::set<double> of_lenet;
  for (const auto& [name, factor] : factors_of("lenet", {})) of_lenet.insert(factor);
  EXPECT_EQ(of_lenet, (std::set{1.0, 0.5, 0.25, 0.125, 0.0625}));
  const auto model =
      ModelRegistry::make(parse_spec("arch", "lenet"), ModelShape{.channels = 1, .height = 28, .width = 28});
  std::map<std::string, double> none;
  decay_by_layer(*model, 1, none);
  EXPECT_TRUE(none.empty());
}

std::unique_ptr<Model> small_model(const char* arch) {
  return ModelRegistry::make(parse_spec("arch", arch), ModelShape{.channels = 3, .height = 32, .width = 32});
}

constexpr const char* kSmallVit = "vit(patch=4,width=32,depth=3,heads=2,mlp=64)";
constexpr const char* kSmallConvNext = "convnext(widths=16:32,depths=2:2)";

/// timm 1.0.31, param_groups_layer_decay(model, layer_decay=0.5): vit_tiny_patch16_224(depth=3) has the stem at 0.0625,
/// the blocks at 0.125, 0.25 and 0.5, and the head at 1; its last norm has 0.5, which is 1 in get_num_layer_for_vit()
/// of BEiT. A convnext has the layer between two stages at the rate of the block after it, and both of its head at 1.
TEST(LayerDecayTest, NormsAndHalvingsBelongToTheBlockAfterThem) {
  std::map<std::string, double> vit, convnext;
  decay_by_layer(*small_model(kSmallVit), 0.5, vit);
  const std::map<std::string, double> of_vit{{"class_token", 0.0625},
                                             {"encoder.pos_embedding", 0.0625},
                                             {"conv_proj.weight", 0.0625},
                                             {"encoder.layers.encoder_layer_0.ln_1.weight", 0.125},
                                             {"encoder.layers.encoder_layer_1.mlp.0.weight", 0.25},
                                             {"encoder.layers.encoder_layer_2.ln_2.bias", 0.5},
                                             {"encoder.ln.weight", 1},
                                             {"heads.head.weight", 1}};
  for (const auto& [name, factor] : of_vit) EXPECT_EQ(vit.at(name), factor) << name;
  decay_by_layer(*small_model(kSmallConvNext), 0.5, convnext);
  const std::map<std::string, double> of_convnext{{"features.0.0.weight", 1.0 / 32},
                                                  {"features.1.0.layer_scale", 1.0 / 16},
                                                  {"features.1.1.block.0.weight", 1.0 / 8},
                                                  {"features.2.0.weight", 0.25},
                                                  {"features.2.1.weight", 0.25},
                                                  {"features.3.0.layer_scale", 0.25},
                                                  {"features.3.1.block.0.weight", 0.5},
                                                  {"classifier.0.bias", 1},
                                                  {"classifier.2.weight", 1}};
  for (const auto& [name, factor] : of_convnext) EXPECT_EQ(convnext.at(name), factor) << name;
}

/// The five kinds, in models that have all of them between them; the rest is weights of convolutions and linear layers.
TEST(NoDecayTest, EachKindIsTheParametersOfItsName) {
  const auto of = [](const Model& model, const char* kinds) {
    std::map<std::string, double> decays;
    leave_out_of_decay(model, parse_no_decay(kinds), decays);
    std::set<std::string> names;
    for (const auto& [name, decay] : decays) {
      EXPECT_EQ(decay, 0);
      names.insert(name);
    }
    return names;
  };
  const auto vit = small_model(kSmallVit), convnext = small_model(kSmallConvNext);
  EXPECT_EQ(of(*vit, "token"), std::set<std::string>{"class_token"});
  EXPECT_EQ(of(*vit, "position"), std::set<std::string>{"encoder.pos_embedding"});
  EXPECT_EQ(of(*vit, "norm").size(), 2U * (3 * 2 + 1));
  EXPECT_TRUE(of(*vit, "norm").contains("encoder.ln.bias"));
  EXPECT_EQ(of(*vit, "bias").size(), 3U * 4 + 2);
  EXPECT_EQ(of(*convnext, "scale").size(), 4U);
  for (const auto& model : {vit.get(), convnext.get()}) {
    const auto all = of(*model, "norm,bias,token,position,scale");
    for (const auto& item : model->named_parameters())
      EXPECT_NE(all.contains(item.key()), item.key().ends_with("weight") && item.value().dim() > 1) << item.key();
  }
  try {
    parse_no_decay("norm,weights");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "--no-decay: unknown kind of parameter \"weights\"; known: bias, norm, position, scale, token");
  }
  std::map<std::string, double> decays{{"encoder.ln.bias", 2}, {"heads.head.bias", 2}};
  leave_out_of_decay(*vit, parse_no_decay("norm"), decays);
  EXPECT_EQ(decays.at("encoder.ln.bias"), 0);
  EXPECT_EQ(decays.at("heads.head.bias"), 2);
}

/// The rule of Muon's own repository: hidden weights are matrices; embeddings, the head and what has one dimension are
/// not.
TEST(MatricesTest, TokensPositionsScalesAndHeadsAreNone) {
  EXPECT_EQ(no_matrices(*small_model(kSmallVit)),
            (std::set<std::string>{"class_token", "encoder.pos_embedding", "heads.head.weight"}));
  EXPECT_EQ(no_matrices(*small_model(kSmallConvNext)),
            (std::set<std::string>{"classifier.2.weight", "features.1.0.layer_scale", "features.1.1.layer_scale",
                                   "features.3.0.layer_scale", "features.3.1.layer_scale"}));
}

/// In every way of spreading the update, one step with weight decay moves a bias as its own number says.
TEST(BiasesTest, EveryModeUsesTheWeightDecayOfEachParameter) {
  const auto samples = random_samples(8, kSmallGrey, 1);
  const auto state_of = [&](const std::string& mode, int ranks) {
    StateDict state;
    run_ranks(ranks, [&](Comm& comm) {
      auto model = make_small_lenet();
      model->to(torch::kFloat64);
      Recorder recorder;
      StrategyContext context{*model, comm, torch::kCPU, {.learning_rate = 0.1, .momentum = 0}, recorder};
      context.make_model = make_small_lenet;
      context.step.weight_decays = bias_decays(*model, 2);
      const auto strategy = StrategyRegistry::make(parse_spec("mode", mode), context);
      strategy->step(part_of(samples, 8, 0, strategy->data_rank(), strategy->data_world_size()));
      auto own = strategy->state();
      if (comm.rank() == 0) state = std::move(own);
    });
    return state;
  };
  const auto expected = state_of("single", 1);
  auto model = make_small_lenet();
  model->to(torch::kFloat64);
  (torch::cross_entropy_loss(model->forward(samples.images), samples.labels)).backward();
  for (const auto& item : model->named_parameters()) {
    const auto& parameter = item.value();
    const double decay = parameter.dim() == 1 ? 2 : 0;
    const auto moved = parameter.detach() - 0.1 * (parameter.grad() + decay * parameter.detach());
    EXPECT_TRUE(expected.at("model." + item.key()).allclose(moved, 1e-10, 1e-13)) << item.key();
  }
  for (const auto& [mode, ranks] : {std::pair{"ddp", 2}, {"zero", 2}, {"zero(stage=2)", 2}, {"zero(stage=3)", 2}})
    EXPECT_LT(relative_difference(expected, state_of(mode, ranks)), 1e-10) << mode;
}

}  // namespace
}  // namespace penstock
