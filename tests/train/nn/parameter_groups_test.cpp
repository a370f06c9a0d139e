// Biases with a learning rate and a weight decay of their own, and blocks with a learning rate of their own.
#include "train/nn/parameter_groups.h"

#include <gtest/gtest.h>

#include <set>

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
