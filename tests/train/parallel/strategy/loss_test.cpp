// The loss of rows whose labels are smoothed, and biases with a learning rate and a weight decay of their own.
#include "train/parallel/strategy/loss.h"

#include <gtest/gtest.h>

#include "tests/support/testing.h"
#include "tests/train/rank_threads.h"
#include "tests/train/strategy_batches.h"
#include "train/nn/parameter_groups.h"

namespace penstock {
namespace {

constexpr ModelShape kSmoothed{.channels = 1, .height = 12, .width = 12, .classes = 4};

/// The same weights at every call. Ranks are threads here and share the generator.
std::unique_ptr<Model> smoothed_lenet() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  at::manual_seed(3);
  return ModelRegistry::make(parse_spec("arch", "lenet"), kSmoothed);
}

/// With a share e: (1 - e) of the label's loss and e of the mean over all classes; rows of weight 0 count nothing.
TEST(TargetsTest, SmoothedLabelsSpreadTheirShareOverAllClasses) {
  const auto samples = random_samples(6, kSmoothed, 1);
  auto batch = part_of(samples, 6, 0, 0, 1);
  batch.weights[2] = 0;
  const auto logits = torch::randn({6, 4}, torch::kFloat64);
  for (const double share : {0.0, 0.2, 0.9}) {
    double expected = 0;
    for (int64_t i : {0, 1, 3, 4, 5}) {
      const auto losses = -torch::log_softmax(logits[i], 0);
      expected +=
          (1 - share) * losses[batch.labels[i].item<int64_t>()].item<double>() + share * losses.mean().item<double>();
    }
    EXPECT_NEAR(detail::Targets(batch, 0, 6, share).loss(logits).item<double>(), expected, 1e-12) << share;
  }
}

TEST(TargetsTest, EveryModeTrainsWithSmoothedLabels) {
  const auto samples = random_samples(8, kSmoothed, 1);
  const auto loss_of = [&](const std::string& mode, int ranks, double smoothing) {
    double loss = 0;
    run_ranks(ranks, [&](Comm& comm) {
      auto model = smoothed_lenet();
      model->to(torch::kFloat64);
      Recorder recorder;
      StrategyContext context{*model, comm, torch::kCPU, {}, recorder};
      context.make_model = smoothed_lenet;
      context.step.label_smoothing = smoothing;
      const auto strategy = StrategyRegistry::make(parse_spec("mode", mode), context);
      auto batch = part_of(samples, 8, 0, strategy->data_rank(), strategy->data_world_size());
      if (!strategy->is_fed()) batch.images = batch.labels = batch.weights = torch::Tensor();
      auto sum = strategy->step(batch).loss.to(torch::kFloat64).clone();
      comm.all_reduce_sum(sum)->wait();
      if (comm.rank() == 0) loss = sum.item<double>();
    });
    return loss;
  };
  const double expected = loss_of("single", 1, 0.3);
  EXPECT_NE(loss_of("single", 1, 0), expected);
  for (const auto& [mode, ranks] : {std::pair{"ddp", 2}, {"dp(devices=cpu:2)", 1}, {"mp", 2}, {"zero(stage=3)", 2}})
    EXPECT_NEAR(loss_of(mode, ranks, 0.3), expected, 1e-10) << mode;
}

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
  const auto samples = random_samples(8, kSmoothed, 1);
  const auto state_of = [&](const std::string& mode, int ranks) {
    StateDict state;
    run_ranks(ranks, [&](Comm& comm) {
      auto model = smoothed_lenet();
      model->to(torch::kFloat64);
      Recorder recorder;
      StrategyContext context{*model, comm, torch::kCPU, {.learning_rate = 0.1, .momentum = 0}, recorder};
      context.make_model = smoothed_lenet;
      context.step.weight_decays = bias_decays(*model, 2);
      const auto strategy = StrategyRegistry::make(parse_spec("mode", mode), context);
      strategy->step(part_of(samples, 8, 0, strategy->data_rank(), strategy->data_world_size()));
      auto own = strategy->state();
      if (comm.rank() == 0) state = std::move(own);
    });
    return state;
  };
  const auto expected = state_of("single", 1);
  auto model = smoothed_lenet();
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
