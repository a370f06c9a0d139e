// evaluate(): every sample counts once, and it ends when it is told to.
#include "train/loop/evaluate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/train/counting_training.h"
#include "tests/train/rank_threads.h"

namespace penstock {
namespace {

using testing::ElementsAre;

TEST(EvaluateTest, EverySampleCountsOnceAtAnyNumberOfRanks) {
  for (const int world_size : {1, 2, 3, 4}) {
    run_ranks(world_size, [](Comm& comm) {
      CountingStrategy strategy(comm);
      CountingFeeder feeder(comm.rank(), comm.world_size());
      const auto evaluation = *evaluate(strategy, comm, feeder, *make_loss("cross-entropy"), 3, torch::kCPU, 0);
      EXPECT_EQ(evaluation.sample_count, kSamples);
      EXPECT_DOUBLE_EQ(evaluation.accuracy().value(), 1.0 / 3);
      EXPECT_THAT(evaluation.class_scores, ElementsAre(0.0, 1.0, 0.0));
      const double right = std::log(2 + std::exp(5.0)) - 5, wrong = std::log(2 + std::exp(5.0));
      EXPECT_NEAR(evaluation.loss, (right + 2 * wrong) / 3, 1e-6);
    });
  }
}

TEST(EvaluateTest, ItEndsBeforeTheBatchThatItIsNotToMake) {
  const auto comm = make_self_comm();
  CountingStrategy strategy(*comm);
  CountingFeeder feeder(0, 1);
  int asked = 0, made = 0;
  const EvaluationCalls calls{.on_batch = [&](const auto&, const auto&, const auto&) { ++made; },
                              .goes_on = [&] { return ++asked < 3; }};
  EXPECT_FALSE(evaluate(strategy, *comm, feeder, *make_loss("cross-entropy"), 3, torch::kCPU, 0, calls));
  EXPECT_EQ(made, 2);
}

TEST(EvaluateTest, AClassWithoutSamplesHasNoAccuracy) {
  const auto comm = make_self_comm();
  CountingStrategy strategy(*comm);
  CountingFeeder feeder(0, 1);
  feeder.class_count = 2;
  const auto evaluation = *evaluate(strategy, *comm, feeder, *make_loss("cross-entropy"), 3, torch::kCPU, 0);
  EXPECT_THAT(evaluation.class_scores, ElementsAre(0.0, 1.0, std::nullopt));
}

}  // namespace
}  // namespace penstock
