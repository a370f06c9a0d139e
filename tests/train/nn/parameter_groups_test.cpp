// Biases with a learning rate and a weight decay of their own.
#include "train/nn/parameter_groups.h"

#include <gtest/gtest.h>

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
