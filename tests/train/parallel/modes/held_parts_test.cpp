// Modes: what a rank holds of the model and of its state, and where the logits are.
#include <gtest/gtest.h>

#include <latch>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "core/clock.h"
#include "tests/train/rank_threads.h"
#include "tests/train/strategy_batches.h"

namespace penstock {
namespace {

std::unique_ptr<Model> exact_lenet() {
  auto model = make("lenet", kGrey);
  model->to(torch::kFloat64);
  return model;
}

TEST(HeldPartsTest, EvaluationHasItsLogitsAtTheLastPartAlone) {
  const auto samples = random_samples(6, kGrey, 4);
  const auto whole = exact_lenet();
  at::NoGradGuard no_grad;
  const auto expected = whole->forward(samples.images);
  for (const auto& [mode, world_size] : {std::pair{"pipeline", 3}, std::pair{"pipeline(schedule=interleaved)", 2},
                                         std::pair{"pipeline(schedule=zb-v)", 2}})
    run_ranks(world_size, [&, mode = mode](Comm& comm) {
      StrategyHarness one(mode, exact_lenet(), comm, kSgd);
      auto batch = one.part(samples, 6, 0);
      const bool is_last = comm.rank() == (std::string(mode) == "pipeline(schedule=zb-v)" ? 0 : comm.world_size() - 1);
      EXPECT_TRUE(!is_last || one.strategy->is_fed() || !batch.labels.defined());
      const auto logits = one.strategy->evaluate(batch);
      ASSERT_EQ(logits.defined(), is_last);
      if (!logits.defined()) return;
      EXPECT_TRUE(logits.allclose(expected, 1e-12, 1e-12));
      EXPECT_TRUE(batch.labels.equal(samples.labels));
    });
}

/// Tensors of other ranks' stages keep their names and sizes, and have no memory.
TEST(HeldPartsTest, ARankKeepsTheMemoryOfItsOwnStagesAlone) {
  const std::map<std::string, std::set<std::string>> of_rank_0{
      {"mp(cut=fc1)", {"conv1", "conv2"}},
      {"pipeline(schedule=interleaved,cut=conv2:fc1:fc3)", {"conv1", "fc1", "fc2"}},
      {"pipeline(schedule=zb-v,cut=conv2:fc1:fc3)", {"conv1", "fc3"}}};
  for (const auto& [mode, held] : of_rank_0)
    run_ranks(2, [&, mode = mode, held = held](Comm& comm) {
      StrategyHarness one(mode, exact_lenet(), comm, kSgd);
      for (const auto& item : one.model->named_parameters()) {
        const bool is_held = held.contains(item.key().substr(0, item.key().find('.'))) == (comm.rank() == 0);
        EXPECT_EQ(item.value().storage().nbytes() > 0, is_held) << mode << ": " << item.key();
        EXPECT_GT(item.value().numel(), 0);
      }
    });
}

/// What ZeRO is for: the momentum of a rank is its share of the parameters, rounded up once per bucket.
TEST(HeldPartsTest, ZerosStateIsWholeAlthoughEachRankHoldsASlice) {
  const auto samples = random_samples(12, kGrey, 4);
  StateDict expected;
  run_ranks(1, [&](Comm& comm) {
    StrategyHarness one("single", exact_lenet(), comm, kSgd);
    one.strategy->step(one.part(samples, 12, 0));
    expected = one.strategy->state();
  });
  run_ranks(4, [&](Comm& comm) {
    StrategyHarness one("zero", exact_lenet(), comm, kSgd);
    one.strategy->step(one.part(samples, 12, 0));
    const auto state = one.strategy->state();
    EXPECT_LE(relative_difference(comm.rank() == 0 ? expected : StateDict(), state), 1e-12);
  });
}

TEST(HeldPartsTest, WaitingForANeighbourIsTheBubble) {
  const auto samples = random_samples(12, kGrey, 4);
  std::latch is_measured(1);
  run_ranks(
      2,
      [&](Comm& comm) {
        StrategyHarness one("pipeline(micro-batches=2)", exact_lenet(), comm, kSgd);
        one.recorder.restart();
        if (comm.rank() == 1) is_measured.count_down();
        if (comm.rank() == 0) {
          is_measured.wait();
          burn_cpu(10'000'000);  // for so long rank 1 waits at least
        }
        one.strategy->step(one.part(samples, 12, 0));
        EXPECT_GE(one.recorder.times()[Phase::kBubble], comm.rank() == 1 ? 10 : 1e-6);
        EXPECT_DOUBLE_EQ(one.strategy->predicted_bubble(), 1 / 3.0);
      },
      60, Network::kThreads);
}

}  // namespace
}  // namespace penstock
