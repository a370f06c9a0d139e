// --exact: every loss is the same bits wherever a shard is computed.
#include <gtest/gtest.h>

#include "tests/train/rank_threads.h"
#include "tests/train/strategy_batches.h"

namespace penstock {
namespace {

constexpr int kLossShards = 8;
constexpr int64_t kLossBatch = 24;  // 3 rows of 10 classes per shard: their elements fill no vector

/// The state of rank 0 after batches of 24, 24 and 11 rows.
StateDict train_with(const std::string& mode, int ranks, const Samples& samples,
                     const std::shared_ptr<const Loss>& loss) {
  StateDict state;
  run_ranks(
      ranks,
      [&](Comm& comm) {
        StrategyHarness one(mode, [] { return make("mlp(hidden=16)"); }, comm, kSgd, torch::kFloat32, torch::kCPU, {},
                            kLossShards, {.loss = loss});
        for (int64_t i = 0; i < 3; ++i) one.strategy->step(one.part(samples, kLossBatch, i));
        if (auto all = one.strategy->state(); comm.rank() == 0) state = std::move(all);
      },
      /*step_seconds=*/60, Network::kThreads);
  return state;
}

TEST(ExactLossesTest, EveryLossTrainsTheBitsOfSingle) {
  auto samples = random_samples(59, kGrey, 4);
  samples.images = samples.images.to(torch::kFloat32);
  for (const auto& [name, entry] : LossRegistry::entries())
    for (const double smoothing : {0.0, 0.1}) {
      if (smoothing > 0 && !entry.traits.smooths_labels) continue;
      const auto loss = make_loss(name, {.label_smoothing = smoothing});
      const auto expected = train_with("single", 1, samples, loss);
      for (const auto& [mode, ranks] : {std::pair{"dp(devices=cpu:2)", 1}, std::pair{"dp(devices=cpu:4)", 1},
                                        std::pair{"dp(devices=cpu:8)", 1}, std::pair{"ddp", 2}, std::pair{"mp", 2}}) {
        const auto found = train_with(mode, ranks, samples, loss);
        for (const auto& [tensor, value] : expected)
          EXPECT_TRUE(value.equal(found.at(tensor))) << name << ", " << smoothing << ", " << mode << ": " << tensor;
      }
    }
}

}  // namespace
}  // namespace penstock
