// BatchNorm over ranks: what one layer gives, what a whole model trains, and which models are refused.
#include "train/nn/batch_norm.h"

#include <gmock/gmock.h>

#include "core/error.h"
#include "tests/support/testing.h"
#include "tests/train/rank_threads.h"
#include "tests/train/strategy_batches.h"
#include "train/parallel/strategy/stage_cuts.h"

namespace penstock {
namespace {

/// What a layer makes of `x`: its output, the gradients of (output * weights).sum(), and its running statistics.
StateDict passed(const torch::Tensor& x, const torch::Tensor& weights, const GatherRanks& gather) {
  BatchNorm2d layer(x.size(1));
  layer->to(x.scalar_type());
  layer->gather_by(gather);
  const auto input = x.clone().requires_grad_();
  const auto output = layer(input);
  (output * weights).sum().backward();
  return {{"output", output.detach()},           {"dx", input.grad()},
          {"dweight", layer->weight.grad()},     {"dbias", layer->bias.grad()},
          {"running_mean", layer->running_mean}, {"running_var", layer->running_var},
          {"count", layer->num_batches_tracked}};
}

TEST(BatchNorm2dTest, RowsOfAllRanksAreNormalisedAsOneBatch) {
  at::manual_seed(2);
  const auto x = torch::randn({7, 3, 4, 5}, torch::kFloat64) + 3, weights = torch::randn_like(x);
  const auto expected = passed(x, weights, nullptr);
  const std::vector<int64_t> first{0, 2, 2, 7};  // ranks of 2, 0 and 5 rows
  run_ranks(3, [&](Comm& comm) {
    const auto begin = first[static_cast<size_t>(comm.rank())];
    const auto rows = first[static_cast<size_t>(comm.rank()) + 1] - begin;
    auto state = passed(x.narrow(0, begin, rows), weights.narrow(0, begin, rows),
                        [&](const auto& tensor) { return comm.all_gather(tensor); });
    for (const char* name : {"output", "dx"})
      EXPECT_TRUE(state.at(name).allclose(expected.at(name).narrow(0, begin, rows), 1e-12, 1e-12)) << name;
    for (const char* name : {"running_mean", "running_var", "count"})
      EXPECT_TRUE(state.at(name).allclose(expected.at(name), 1e-12, 1e-14)) << name;
    for (const char* name : {"dweight", "dbias"}) {
      comm.all_reduce_sum(state.at(name))->wait();
      EXPECT_TRUE(state.at(name).allclose(expected.at(name), 1e-12, 1e-12)) << name;
    }
  });
}

/// A mean of 3000 squared leaves f32 no digit of a variance of 1.
TEST(BatchNorm2dTest, LargeMeansDoNotCostTheVarianceItsDigits) {
  at::manual_seed(2);
  const auto exact = torch::randn({8, 2, 6, 6}, torch::kFloat64) + 3000;
  const auto x = exact.to(torch::kFloat32);
  const auto expected = passed(x.to(torch::kFloat64), torch::ones_like(exact), nullptr);
  run_ranks(2, [&](Comm& comm) {
    const auto state = passed(x.narrow(0, 4 * comm.rank(), 4), torch::ones({4, 2, 6, 6}),
                              [&](const auto& tensor) { return comm.all_gather(tensor); });
    const auto variance = state.at("running_var").to(torch::kFloat64);
    EXPECT_TRUE(variance.allclose(expected.at("running_var"), 1e-5, 0)) << variance;
  });
}

struct Net {
  std::string arch;
  ModelShape shape;
};
const Net kLenet{"lenet(batch-norm=true)", kSmallGrey}, kResNet{"resnet18", kSmallPhotos};

StateDict train(const std::string& mode, int world_size, const Net& net, const Samples& samples, int64_t batch_size,
                int64_t steps) {
  StateDict state;
  run_ranks(world_size, [&](Comm& comm) {
    StrategyHarness one(mode, make(net.arch, net.shape), comm, kSgd);
    for (int64_t step = 0; step < steps; ++step) one.strategy->step(one.part(samples, batch_size, step));
    if (auto all = one.strategy->state(); comm.rank() == 0) state = std::move(all);
  });
  return state;
}

/// Batches of 8, 8 and 3 rows: in the last one a rank has one row, or none.
TEST(SyncedNormsTest, ANetworkOverRanksTrainsTheModelOfSingleWithItsStatistics) {
  const auto samples = random_samples(19, kLenet.shape, 4);
  const auto expected = train("single", 1, kLenet, samples, 8, 3);
  for (const auto& [mode, world_size] :
       {std::pair{"ddp(sync-bn=true)", 1}, std::pair{"ddp(sync-bn=true)", 2}, std::pair{"ddp(sync-bn=true)", 4},
        std::pair{"zero(sync-bn=true)", 3}, std::pair{"zero(stage=2,sync-bn=true)", 2},
        std::pair{"zero(stage=3,sync-bn=true)", 4}})
    EXPECT_LE(relative_difference(expected, train(mode, world_size, kLenet, samples, 8, 3)), 1e-12)
        << mode << ", " << world_size << " ranks";
}

/// The norms of a ResNet lie in blocks, and some of them in a sequence.
TEST(SyncedNormsTest, ABatchOfOneRowHasTheStatisticsOfSingleInAResNetToo) {
  const auto samples = random_samples(5, kResNet.shape, 4);  // batches of 4 and 1
  const auto expected = train("single", 1, kResNet, samples, 4, 2);
  for (const std::string mode : {"ddp(sync-bn=true)", "zero(stage=3,sync-bn=true)"})
    EXPECT_LE(relative_difference(expected, train(mode, 2, kResNet, samples, 4, 2)), 1e-10) << mode;
}

TEST(SyncedNormsTest, ALayerThatCannotBeSyncedAndAccumulateAreRefused) {
  const TinyNorm model;
  const auto plan = [](const char* mode) { return plan_of(parse_spec("mode", mode), {.ranks = 2}); };
  const auto facts = detail::facts_of(model);
  EXPECT_EQ(message_of(ErrorKind::kConfig, [&] { detail::fitted(plan("ddp(sync-bn=true)"), facts); }),
            "--mode ddp: sync-bn is true, but norm is a BatchNorm of LibTorch, which sees one rank alone; expected "
            "penstock::BatchNorm2d (train/nn/batch_norm.h)");
  EXPECT_EQ(detail::fitted(plan("ddp"), facts), plan("ddp"));
  EXPECT_EQ(message_of(ErrorKind::kConfig, [&] { plan("ddp(sync-bn=true,accumulate=2)"); }),
            "--mode ddp: sync-bn is true and accumulate is 2; expected one of them: BatchNorm would see a micro-batch "
            "of all ranks, not the batch");
}

}  // namespace
}  // namespace penstock
