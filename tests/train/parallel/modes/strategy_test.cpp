// Strategies: the contract of every registered one with one rank; and sums, BatchNorm and checkpoints of those that
// replicate the model.
#include <gmock/gmock.h>

#include "core/error.h"
#include "tests/support/testing.h"
#include "tests/train/rank_threads.h"
#include "tests/train/strategy_batches.h"

namespace penstock {
namespace {

using testing::AllOf, testing::HasSubstr;

std::unique_ptr<Model> make_other_lenet() { return make("lenet", kSmallGrey, 2); }

class StrategyContractTest : public testing::TestWithParam<std::string> {
 protected:
  StrategyHarness trainee(const std::string& arch = "lenet", int seed = 1) {
    return {GetParam(), [=] { return make(arch, kSmallGrey, seed); }, *comm_, kSgd};
  }
  std::unique_ptr<Comm> comm_ = make_self_comm();
  /// The second batch of 36 samples: the 16 of samples_, and 4 padding rows.
  DeviceBatch padded_part(const StrategyHarness& one) const { return one.part(all_, 20, 1); }

  Samples all_ = random_samples(36, kSmallGrey, 5);
  Samples samples_{all_.images.narrow(0, 20, 16), all_.labels.narrow(0, 20, 16)};
};
INSTANTIATE_TEST_SUITE_P(Modes, StrategyContractTest, testing::ValuesIn(StrategyRegistry::names()));
INSTANTIATE_TEST_SUITE_P(Stages, StrategyContractTest, testing::Values("zero(stage=2)", "zero(stage=3)"));

TEST_P(StrategyContractTest, StepsLearn) {
  auto one = trainee();
  const auto batch = one.part(samples_, 16, 0);
  const double first = one.strategy->step(batch).loss.item<double>();
  for (int i = 0; i < 30; ++i) one.strategy->step(batch);
  EXPECT_LT(one.strategy->step(batch).loss.item<double>(), 0.5 * first);
}

TEST_P(StrategyContractTest, SumsAreThoseOfTheWeightedRows) {
  auto one = trainee();
  auto batch = padded_part(one);
  batch.weights[3] = 0;  // a substituted row
  at::NoGradGuard no_grad;
  const auto logits = one.strategy->evaluate(batch).narrow(0, 0, 16);  // the model's own parameters may be in slices
  auto losses = torch::cross_entropy_loss(logits, samples_.labels, {}, at::Reduction::None);
  losses[3] = 0;
  auto hits = logits.argmax(1).eq(samples_.labels);
  hits[3] = false;
  torch::AutoGradMode with_grad(true);
  const auto sums = one.strategy->step(batch);
  EXPECT_NEAR(sums.loss.item<double>(), losses.sum().item<double>(), 1e-12);
  EXPECT_EQ(sums.correct.item<int64_t>(), hits.sum().item<int64_t>());
  EXPECT_EQ(sums.correct.scalar_type(), torch::kInt64);
}

/// Row 0 has mix weight 0.5 and counts by its own label; row 1 counts by the second label.
TEST_P(StrategyContractTest, MixedRowsCountBothLabelsByTheirShares) {
  auto one = trainee();
  auto batch = padded_part(one);
  batch.weights[3] = 0;  // a substituted row
  batch.second_labels = torch::remainder(batch.labels + 1, 4);
  batch.mix_weights = torch::linspace(0.5, 0.1, 20);
  at::NoGradGuard no_grad;
  const auto logits = one.strategy->evaluate(batch).narrow(0, 0, 16);
  const auto best = logits.argmax(1);
  batch.labels[0] = best[0];
  batch.second_labels[1] = best[1];
  double loss = 0;
  int64_t hits = 0;
  for (int64_t i = 0; i < 16; ++i) {
    if (i == 3) continue;
    const auto log_probability = torch::log_softmax(logits[i], 0);
    const auto label = batch.labels[i].item<int64_t>(), second = batch.second_labels[i].item<int64_t>();
    const double share = batch.mix_weights[i].item<float>();
    loss -= share * log_probability[label].item<double>() + (1 - share) * log_probability[second].item<double>();
    hits += best[i].item<int64_t>() == (i == 0 ? label : second);
  }
  torch::AutoGradMode with_grad(true);
  const auto sums = one.strategy->step(batch);
  EXPECT_NEAR(sums.loss.item<double>(), loss, 1e-6);  // 1 - mix weight is rounded to f32
  EXPECT_EQ(sums.correct.item<int64_t>(), hits);
}

TEST_P(StrategyContractTest, StateNamesEveryTensorUnsharded) {
  auto one = trainee();
  const auto state = one.strategy->state();
  for (const auto& item : one.model->named_parameters()) {
    ASSERT_TRUE(state.contains("model." + item.key()));
    EXPECT_EQ(state.at("model." + item.key()).sizes(), item.value().sizes());
    EXPECT_TRUE(state.contains("optimizer.momentum." + item.key()));
  }
  EXPECT_EQ(state.size(), 2 * one.model->named_parameters().size());
}

TEST_P(StrategyContractTest, StateNamesTheSlotsAndStepsOfTheOptimizer) {
  auto options = kSgd;
  options.spec = "adamw";
  StrategyHarness one(GetParam(), make_small_lenet, *comm_, options);
  for (int64_t i = 0; i < 3; ++i) one.strategy->step(one.part(samples_, 4, i));
  const auto state = one.strategy->state();
  for (const auto& item : one.model->named_parameters())
    for (const std::string slot : {"first_moment", "second_moment"}) {
      ASSERT_TRUE(state.contains(concat("optimizer.", slot, ".", item.key())));
      EXPECT_EQ(state.at(concat("optimizer.", slot, ".", item.key())).sizes(), item.value().sizes());
    }
  EXPECT_EQ(state.at("optimizer.steps").item<int64_t>(), 3);
  EXPECT_EQ(state.size(), 3 * one.model->named_parameters().size() + 1);
}

TEST_P(StrategyContractTest, ARunGoesOnFromItsStateBitForBit) {
  for (const auto& spec : OptimizerRegistry::names()) {
    auto options = kSgd;
    options.spec = spec;
    if (OptimizerRegistry::entry(spec).traits.needs_whole_tensors && GetParam().starts_with("zero")) continue;
    StrategyHarness whole(GetParam(), make_small_lenet, *comm_, options),
        resumed(GetParam(), make_other_lenet, *comm_, options);
    for (int64_t i = 0; i < 2; ++i) whole.strategy->step(whole.part(samples_, 4, i));
    resumed.strategy->load_state(whole.strategy->state());
    for (int64_t i = 2; i < 4; ++i)
      for (auto* run : {&whole, &resumed}) run->strategy->step(run->part(samples_, 4, i));
    EXPECT_EQ(relative_difference(whole.strategy->state(), resumed.strategy->state()), 0) << spec;
  }
}

TEST_P(StrategyContractTest, AStateIsACopy) {
  auto one = trainee();
  const auto before = one.strategy->state();
  const auto weight = before.at("model.fc3.weight").clone();
  one.strategy->step(one.part(samples_, 16, 0));
  EXPECT_TRUE(before.at("model.fc3.weight").equal(weight));
}

TEST_P(StrategyContractTest, StatesThatDoNotFitAreNamed) {
  auto one = trainee();
  const auto load = [&](const auto& edit) {
    auto state = one.strategy->state();
    edit(state);
    return message_of(ErrorKind::kCorrupt, [&] { one.strategy->load_state(state); });
  };
  EXPECT_THAT(load([](auto& state) { state.erase("optimizer.momentum.fc1.bias"); }),
              AllOf(HasSubstr("optimizer.momentum.fc1.bias"), HasSubstr("missing")));
  EXPECT_THAT(load([](auto& state) { state["model.extra"] = torch::ones({1}); }),
              AllOf(HasSubstr("model.extra"), HasSubstr("too many")));
  EXPECT_THAT(load([](auto& state) { state["model.fc1.bias"] = torch::ones({3}, torch::kFloat64); }),
              AllOf(HasSubstr("model.fc1.bias"), HasSubstr("[3]"), HasSubstr("[120]")));
  EXPECT_THAT(load([](auto& state) { state["model.fc1.bias"] = torch::ones({120}); }), HasSubstr("Float"));
}

TEST_P(StrategyContractTest, EvaluationChangesNothing) {
  StrategyHarness one(GetParam(), make_tiny, *comm_, kSgd);
  one.strategy->step(one.part(samples_, 16, 0));
  const auto before = one.strategy->state();
  auto batch = padded_part(one);
  const auto logits = one.strategy->evaluate(batch);
  EXPECT_EQ(logits.sizes(), torch::IntArrayRef({20, 4}));
  EXPECT_FALSE(logits.requires_grad());
  EXPECT_EQ(relative_difference(before, one.strategy->state()), 0);
  // Row by row must give the same; with batch statistics rows would depend on each other.
  auto one_row = batch.narrow(0, 1);
  EXPECT_TRUE(one.strategy->evaluate(one_row)[0].allclose(logits[0], 1e-12, 1e-14));
}

TEST_P(StrategyContractTest, RunningStatisticsSeeSamplesOnly) {
  StrategyHarness padded(GetParam(), make_tiny, *comm_, kSgd);
  StrategyHarness whole(GetParam(), make_tiny, *comm_, kSgd);
  const auto mean = [](StrategyHarness& run) {
    return run.strategy->state().at("model.norm.running_mean").template item<double>();
  };
  padded.strategy->step(padded_part(padded));
  whole.strategy->step(whole.part(samples_, 16, 0));
  EXPECT_EQ(mean(padded), mean(whole));
  EXPECT_NE(mean(whole), 0);

  auto batch = padded.part(samples_, 16, 0);
  batch.count = 1;  // a row alone has statistics over its places
  padded.strategy->step(batch);
  const double moved = mean(padded);
  EXPECT_NE(moved, mean(whole));
  batch.count = 0;
  padded.strategy->step(batch);
  EXPECT_EQ(mean(padded), moved);
}

TEST_P(StrategyContractTest, ABatchWithoutSamplesHereStillUpdates) {
  auto one = trainee("mlp");
  one.strategy->step(one.part(samples_, 16, 0));
  const auto before = one.strategy->state().at("model.fc1.weight");
  auto batch = one.part(samples_, 16, 0);
  batch.count = 0;
  const auto sums = one.strategy->step(batch);
  EXPECT_EQ(sums.loss.item<double>(), 0);
  EXPECT_EQ(sums.correct.item<int64_t>(), 0);
  EXPECT_FALSE(one.strategy->state().at("model.fc1.weight").equal(before));  // the momentum still changes it
}

TEST_P(StrategyContractTest, EveryPhaseIsMarked) {
  auto one = trainee();
  one.recorder.restart();
  one.strategy->step(one.part(samples_, 16, 0));
  for (const auto phase : {Phase::kForward, Phase::kBackward, Phase::kOptimizer})
    EXPECT_GT(one.recorder.times()[phase], 0);
  for (const auto phase : {Phase::kWait, Phase::kHostToDevice, Phase::kOther})
    EXPECT_EQ(one.recorder.times()[phase], 0);
}

/// The loader's batches cannot depend on the step: a strategy gets tensors and must not change them.
TEST(EmulatedStepTest, WaitsAndLeavesModelAndBatchAlone) {
  const auto comm = make_self_comm();
  Recorder recorder;
  const auto model = make("mlp", kSmallGrey);
  const auto strategy =
      StrategyRegistry::make(parse_spec("mode", "single"),
                             StrategyContext{*model, *comm, torch::kCPU, kSgd, recorder, {.step_ns = 3'000'000}});
  const auto before = strategy->state();
  const auto samples = random_samples(16, {1, 12, 12, 4}, 3);
  const auto batch = part_of(samples, 16, 0, 0, 1);
  const auto images = batch.images.clone();
  recorder.restart();
  const auto sums = strategy->step(batch);
  const auto times = recorder.times();
  EXPECT_GE(times[Phase::kForward], 1);  // a wait is never shorter than requested
  EXPECT_GE(times[Phase::kForward] + times[Phase::kBackward], 3);
  EXPECT_EQ(sums.loss.item<double>(), 0);
  EXPECT_TRUE(batch.images.equal(images));
  for (const auto& [name, tensor] : strategy->state()) EXPECT_TRUE(tensor.equal(before.at(name))) << name;
}

TEST(SingleTest, TwoRanksAreRefused) {
  run_ranks(2, [](Comm& comm) {
    EXPECT_EQ(message_of(ErrorKind::kConfig, [&] { StrategyHarness("single", make("mlp", kSmallGrey), comm, kSgd); }),
              "--mode single: launched with 2 ranks; expected 1 (use --mode ddp)");
  });
}

}  // namespace
}  // namespace penstock
