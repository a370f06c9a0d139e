// Losses: what a row of weight counts, and that training and evaluation have the one that --loss names.
#include "train/losses/loss.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/support/testing.h"
#include "tests/train/counting_training.h"
#include "tests/train/rank_threads.h"
#include "tests/train/strategy_batches.h"
#include "train/loop/evaluate.h"
#include "train/verify/matrix.h"

namespace penstock {
namespace {

/// How far the label's output is below 3; no file of the library knows it.
class Shortfall final : public Loss {
  torch::Tensor of_targets(const torch::Tensor& outputs, const DeviceBatch& rows) const override {
    EXPECT_FALSE(rows.images.defined() || rows.second_labels.defined() || rows.mix_weights.defined());
    return (3 - outputs.gather(1, rows.labels.unsqueeze(1)).squeeze(1)).clamp_min(0);
  }
};

const Registered<LossKind> kShortfall{
    "shortfall", {}, "of a test", [](const Spec&, const LossOptions&) { return std::make_unique<Shortfall>(); }};

TEST(LossTest, SmoothedLabelsSpreadTheirShareOverAllClasses) {
  const auto samples = random_samples(6, kSmallGrey, 1);
  const auto batch = part_of(samples, 6, 0, 0, 1);
  const auto logits = torch::randn({6, 4}, torch::kFloat64);
  for (const double share : {0.0, 0.2, 0.9}) {
    const auto all = make_loss("cross-entropy", {.label_smoothing = share})->of_rows(logits, batch);
    for (int64_t i = 0; i < 6; ++i) {
      const auto losses = -torch::log_softmax(logits[i], 0);
      const double expected =
          (1 - share) * losses[batch.labels[i].item<int64_t>()].item<double>() + share * losses.mean().item<double>();
      EXPECT_NEAR(all[i].item<double>(), expected, 1e-12) << share;
    }
  }
}

/// A class as timm 1.0 does it (timm/loss/binary_cross_entropy.py: off = E / classes, on = 1 - E + off), and a yes or a
/// no as Keras does.
TEST(LossTest, BinaryCrossEntropySmoothsAClassOverAllAndAnAnswerToAHalf) {
  auto batch = part_of(random_samples(6, kSmallGrey, 1), 6, 0, 0, 1);
  const auto logits = torch::randn({6, 4}, torch::kFloat64);
  const double share = 0.2;
  const auto row_of = [&](const torch::Tensor& wanted) {
    const auto yes = torch::log(torch::sigmoid(logits)), no = torch::log(1 - torch::sigmoid(logits));
    return -(wanted * yes + (1 - wanted) * no).mean(1);
  };
  const auto hot = torch::one_hot(batch.labels, 4).to(torch::kFloat64);
  const auto of_class = make_loss("bce", {.label_smoothing = share})->of_rows(logits, batch);
  EXPECT_TRUE(of_class.allclose(row_of(hot * (1 - share + share / 4) + (1 - hot) * (share / 4)), 1e-12, 1e-14));
  batch.columns[kTargetColumn] = hot;
  const auto of_field = make_loss("bce(target=tags,classes=4)", {.label_smoothing = share})->of_rows(logits, batch);
  EXPECT_TRUE(of_field.allclose(row_of(hot * 0.9 + (1 - hot) * 0.1), 1e-12, 1e-14));
}

/// For every loss, also one that knows no mixing.
TEST(LossTest, AMixedRowHasTheSharesOfItsLabels) {
  auto batch = part_of(random_samples(6, kSmallGrey, 1), 6, 0, 0, 1);
  const auto logits = torch::randn({6, 4}, torch::kFloat64);
  for (const auto& name : LossRegistry::names()) {
    const auto loss = make_loss(name);
    auto other = batch, mixed = batch;
    other.labels = (batch.labels + 1) % 4;
    mixed.second_labels = other.labels;
    mixed.mix_weights = torch::rand({6}, torch::kFloat64);
    const auto expected =
        loss->of_rows(logits, batch) * mixed.mix_weights + loss->of_rows(logits, other) * (1 - mixed.mix_weights);
    EXPECT_TRUE(loss->of_rows(logits, mixed).equal(expected)) << name;
  }
}

TEST(LossTest, WhatItCannotDoIsRefused) {
  EXPECT_EQ(
      message_of(ErrorKind::kConfig, [] { make_loss("cross-entrop"); }),
      "--loss: unknown loss \"cross-entrop\"; did you mean \"cross-entropy\"? known: bce, cross-entropy, l1, mse, "
      "shortfall, smooth-l1");
  EXPECT_EQ(message_of(ErrorKind::kConfig, [] { make_loss("shortfall", {.label_smoothing = 0.5}); }),
            "--label-smoothing is 0.5 with --loss shortfall, which does not smooth labels; expected 0, or --loss "
            "cross-entropy or bce");
}

/// The loss of one step of `mode`, added over all ranks. The batch has 24 rows, one of weight 0.
double loss_of_step(const std::string& mode, int ranks, const std::shared_ptr<const Loss>& trained) {
  auto samples = random_samples(24, kSmallGrey, 1);
  double loss = 0;
  run_ranks(ranks, [&](Comm& comm) {
    auto model = make_small_lenet();
    model->to(torch::kFloat64);
    Recorder recorder;
    StrategyContext context{*model, comm, torch::kCPU, {}, recorder};
    context.make_model = make_small_lenet;
    context.step.loss = trained;
    const auto strategy = StrategyRegistry::make(parse_spec("mode", mode), context);
    auto batch = part_of(samples, 24, 0, strategy->data_rank(), strategy->data_world_size());
    if (strategy->data_rank() == 0) batch.weights[1] = 0;
    if (!strategy->is_fed()) batch.images = batch.labels = batch.weights = torch::Tensor();
    auto sum = strategy->step(batch).loss.to(torch::kFloat64).clone();
    comm.all_reduce_sum(sum)->wait();
    if (comm.rank() == 0) loss = sum.item<double>();
  });
  return loss;
}

TEST(LossTest, EveryModeTrainsWithTheLossThatItIsGiven) {
  const auto model = make_small_lenet();
  model->to(torch::kFloat64);
  const auto samples = random_samples(24, kSmallGrey, 1);
  const auto batch = part_of(samples, 24, 0, 0, 1);
  const auto pairs = matrix_of({.archs = {"lenet"}, .ranks = {2}, .hostings = {Hosting::kThreads}}).pairs;
  for (const auto& loss : {make_loss("shortfall"), make_loss("cross-entropy", {.label_smoothing = 0.3})}) {
    auto weights = torch::ones({24}, torch::kFloat64);
    weights[1] = 0;
    const auto losses = loss->of_rows(model->forward(samples.images), batch);
    const double expected = (losses * weights).sum().item<double>();
    EXPECT_NEAR(loss_of_step("single", 1, loss), expected, 1e-10);
    std::set<std::string> modes;
    for (const auto& pair : pairs) {
      if (pair.equivalence == Equivalence::kBitwise || !modes.insert(pair.mode).second) continue;
      EXPECT_NEAR(loss_of_step(pair.mode, pair.ranks, loss), expected, 1e-10) << pair.mode;
    }
    EXPECT_GT(modes.size(), StrategyRegistry::names().size());
  }
}

/// The counting strategy gives every row of three classes the outputs 0, 5, 0.
TEST(LossTest, EvaluationsAndWhoListensToThemHaveTheLossThatTheyAreGiven) {
  const auto comm = make_self_comm();
  CountingStrategy strategy(*comm);
  CountingFeeder feeder(0, 1);
  double heard = 0;
  const EvaluationCalls calls{.on_batch = [&](const DeviceBatch& batch, const auto&, const torch::Tensor& losses) {
    heard += (losses * batch.weights).sum().item<double>();
  }};
  const auto evaluation = *evaluate(strategy, *comm, feeder, *make_loss("shortfall"), 3, torch::kCPU, 0, calls);
  EXPECT_DOUBLE_EQ(evaluation.loss, 2);  // 3, 0, 3
  EXPECT_DOUBLE_EQ(heard, 2 * kSamples);
}

}  // namespace
}  // namespace penstock
