// Compressed gradients: what is sent, what is left out and comes later, what it costs, and how a run goes on.
#include <gmock/gmock.h>

#include <cmath>

#include "core/error.h"
#include "tests/support/testing.h"
#include "tests/train/rank_threads.h"
#include "tests/train/strategy_batches.h"

namespace penstock {
namespace {

using testing::HasSubstr;

const OptimizerOptions kStill{.learning_rate = 0, .momentum = 0, .weight_decay = 0};  // gradients stay the same

StateDict gradients(const Model& model) {
  StateDict all;
  for (const auto& item : model.named_parameters()) all[item.key()] = item.value().grad().clone();
  return all;
}

/// |a - b| / |b| over all tensors.
double relative_norm(const StateDict& a, const StateDict& b) {
  double difference = 0, truth = 0;
  for (const auto& [name, tensor] : b) {
    difference += (a.at(name) - tensor).square().sum().item<double>();
    truth += tensor.square().sum().item<double>();
  }
  return std::sqrt(difference / truth);
}

/// The summed gradients of rank 0 after one step, and the error that the step told.
struct OneStep {
  StateDict gradients;
  double error = -1;
};
OneStep one_step(const std::string& mode, const Samples& samples, int world_size) {
  OneStep found;
  run_ranks(world_size, [&](Comm& comm) {
    StrategyHarness one(mode, make("lenet", kSmallGrey), comm, kStill);
    const auto batch = one.part(samples, samples.labels.size(0), 0);
    EXPECT_FALSE(one.strategy->step(batch).compression_error.defined());
    one.strategy->measure_next_step();
    const auto error = one.strategy->step(batch).compression_error;
    if (comm.rank() != 0) return;
    found.gradients = gradients(*one.model);
    if (error.defined()) found.error = error.item<double>();
  });
  return found;
}

TEST(CompressedSyncTest, SixteenBitsCostNoMoreThanTheirBound) {
  const auto half = random_samples(6, kSmallGrey, 3);
  const Samples samples{half.images.repeat({2, 1, 1, 1}), half.labels.repeat({2})};  // |g_1| + |g_2| = |g_1 + g_2|
  const auto truth = one_step("ddp", samples, 2), sent = one_step("ddp(compress=fp16)", samples, 2);
  EXPECT_EQ(truth.error, -1);
  double norm = 0, count = 0;
  for (const auto& [name, tensor] : truth.gradients) {
    norm += tensor.square().sum().item<double>();
    count += static_cast<double>(tensor.numel());
  }
  EXPECT_LE(sent.error, 2 * std::ldexp(1.0, -11) + 2 * std::ldexp(1.0, -25) * std::sqrt(count / norm));
  EXPECT_GT(sent.error, 1e-5);
  EXPECT_NEAR(sent.error, relative_norm(sent.gradients, truth.gradients), 1e-12);
}

TEST(CompressedSyncTest, TheErrorThatIsToldIsThatOfTheSumOverAllRanks) {
  const auto samples = random_samples(9, kSmallGrey, 3);
  const auto truth = one_step("ddp", samples, 3), sent = one_step("ddp(compress=powersgd,rank=1)", samples, 3);
  EXPECT_NEAR(sent.error, relative_norm(sent.gradients, truth.gradients), 1e-12);
  EXPECT_GT(sent.error, 0.01);
}

/// Two samples give the layers of an MLP gradients of rank 2: sums of two outer products.
TEST(PowerSgdTest, GradientsOfNoMoreThanItsRankAreExact) {
  const auto samples = random_samples(6, kSmallGrey, 3);
  const auto train = [&](const std::string& mode, int world_size) {
    StateDict parameters;
    run_ranks(world_size, [&](Comm& comm) {
      StrategyHarness one(mode, make("mlp(hidden=20:15)", kSmallGrey), comm, kSgd);
      for (int64_t step = 0; step < 3; ++step) one.strategy->step(one.part(samples, 2, step));
      if (comm.rank() == 0)
        for (const auto& item : one.model->named_parameters()) parameters[item.key()] = item.value().detach().clone();
    });
    return parameters;
  };
  const auto expected = train("single", 1);
  EXPECT_LE(relative_difference(expected, train("ddp(compress=powersgd,rank=2)", 2)), 1e-10);
  EXPECT_GT(relative_difference(expected, train("ddp(compress=powersgd,rank=1)", 2)), 1e-4);
}

/// The algorithm in the paper's words, for the first layer of an MLP and two ranks.
TEST(PowerSgdTest, ThreeStepsAreThoseOfThePaper) {
  const auto samples = random_samples(12, kSmallGrey, 3);
  std::vector<torch::Tensor> own(2), sent;  // each rank's gradient; what came of each step
  torch::Tensor factor;
  run_ranks(2, [&](Comm& comm) {
    StrategyHarness one("ddp(compress=powersgd,rank=2)", make("mlp(hidden=20:15)", kSmallGrey), comm, kStill);
    const auto batch = one.part(samples, 12, 0);
    const auto plain = make("mlp(hidden=20:15)", kSmallGrey);
    plain->to(torch::kFloat64);
    torch::cross_entropy_loss(plain->forward(batch.images), batch.labels, {}, at::Reduction::Sum).backward();
    own[static_cast<size_t>(comm.rank())] = plain->named_parameters()["fc1.weight"].grad() / 12;
    const auto state = one.strategy->state();
    if (comm.rank() == 0) factor = state.at("strategy.powersgd.0.factor.fc1.weight");
    for (int step = 0; step < 3; ++step) {
      one.strategy->step(batch);
      if (comm.rank() == 0) sent.push_back(one.model->named_parameters()["fc1.weight"].grad().clone());
    }
  });
  std::vector<torch::Tensor> left{torch::zeros_like(own[0]), torch::zeros_like(own[0])};
  for (size_t step = 0; step < 3; ++step) {
    for (size_t rank = 0; rank < 2; ++rank) left[rank] += own[rank];
    const auto basis = std::get<0>(torch::linalg_qr((left[0] + left[1]).mm(factor)));
    factor = (left[0] + left[1]).t().mm(basis);
    EXPECT_TRUE(sent[step].allclose(basis.mm(factor.t()), 1e-10, 1e-12)) << "step " << step;
    for (auto& one : left) one -= basis.mm(basis.t().mm(one));
  }
}

TEST(PowerSgdTest, WhatAStepLeavesOutComesInLaterOnes) {
  const auto samples = random_samples(12, kSmallGrey, 3);
  const auto truth = one_step("ddp", samples, 2).gradients;
  constexpr int kSteps = 40;
  run_ranks(2, [&](Comm& comm) {
    StrategyHarness one("ddp(compress=powersgd,rank=1)", make("lenet", kSmallGrey), comm, kStill);
    StateDict sums;
    for (int step = 0; step < kSteps; ++step) {
      one.strategy->step(one.part(samples, 12, 0));
      for (const auto& [name, tensor] : gradients(*one.model)) sums[name] = step == 0 ? tensor : sums[name] + tensor;
    }
    const auto state = one.strategy->state();
    if (comm.rank() != 0) return;
    for (auto& [name, tensor] : sums) tensor /= kSteps;
    EXPECT_LE(relative_norm(sums, truth), 0.2);
    for (auto& [name, tensor] : sums)
      for (const std::string rank : {"0", "1"})
        if (const auto left = state.find("strategy.powersgd." + rank + ".error." + name); left != state.end())
          tensor += left->second.view_as(tensor) / kSteps;
    EXPECT_LE(relative_difference(truth, sums), 1e-11);
  });
}

TEST(PowerSgdTest, ARunGoesOnFromItsStateBitForBit) {
  const auto samples = random_samples(24, kSmallGrey, 5);
  const std::string mode = "ddp(compress=powersgd,rank=1)";
  StateDict saved, whole;
  run_ranks(2, [&](Comm& comm) {
    StrategyHarness one(mode, make("lenet", kSmallGrey), comm, kSgd);
    for (int64_t step = 0; step < 4; ++step) {
      if (step == 2)
        if (auto state = one.strategy->state(); comm.rank() == 0) saved = std::move(state);
      one.strategy->step(one.part(samples, 6, step));
    }
    if (auto state = one.strategy->state(); comm.rank() == 0) whole = std::move(state);
  });
  ASSERT_TRUE(saved.contains("strategy.powersgd.1.error.fc1.weight"));
  ASSERT_GT(saved.at("strategy.powersgd.1.error.fc1.weight").abs().max().item<double>(), 0);
  run_ranks(2, [&](Comm& comm) {
    StrategyHarness one(mode, make("lenet", kSmallGrey), comm, kSgd);
    one.strategy->load_state(saved);
    EXPECT_EQ(one.strategy->left_out(), "");
    for (int64_t step = 2; step < 4; ++step) one.strategy->step(one.part(samples, 6, step));
    const auto state = one.strategy->state();
    if (comm.rank() != 0) return;
    EXPECT_EQ(relative_difference(whole, state), 0);
  });
}

TEST(PowerSgdTest, OtherModesKeysAndNumbersOfRanksLeaveOutWhatARankKept) {
  StateDict saved;
  run_ranks(2, [&](Comm& comm) {
    StrategyHarness one("ddp(compress=powersgd)", make("lenet", kSmallGrey), comm, kSgd);
    if (auto state = one.strategy->state(); comm.rank() == 0) saved = std::move(state);
  });
  for (const auto& [mode, world_size] : {std::pair{"single", 1}, std::pair{"ddp", 2}, std::pair{"zero", 2},
                                         std::pair{"ddp(compress=powersgd,rank=1)", 2},
                                         std::pair{"ddp(compress=powersgd)", 1}, std::pair{"ddp(compress=fp16)", 2}})
    run_ranks(world_size, [&](Comm& comm) {
      StrategyHarness one(mode, make("lenet", kSmallGrey), comm, kSgd);
      one.strategy->load_state(saved);
      EXPECT_EQ(
          one.strategy->left_out(),
          "left out of the checkpoint: what each rank kept for powersgd, which only the same mode, keys and number "
          "of ranks can go on with")
          << mode;
    });
}

TEST(CompressedSyncTest, KeysThatMeanNothingAreRefused) {
  const auto comm = make_self_comm();
  const auto refused = [&](const std::string& mode) {
    return message_of(ErrorKind::kConfig, [&] { StrategyHarness(mode, make("lenet", kSmallGrey), *comm, kSgd); });
  };
  EXPECT_THAT(refused("ddp(compress=topk)"), HasSubstr("--mode ddp: unknown compression \"topk\""));
  EXPECT_EQ(refused("ddp(rank=2)"), "--mode ddp: rank is 2, which is of compress=powersgd; expected that, or no rank");
  EXPECT_EQ(refused("ddp(compress=powersgd,rank=0)"), "--mode ddp: rank is 0; expected 1 to 65536");
}

}  // namespace
}  // namespace penstock
