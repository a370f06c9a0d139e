// Single rows: which steps have some, which layers have no variance of one, and what is left out.
#include "train/parallel/strategy/single_rows.h"

#include <gtest/gtest.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <tuple>

#include "tests/train/rank_threads.h"
#include "tests/train/strategy_batches.h"
#include "train/nn/batch_norm.h"
#include "train/tensor/storage.h"

namespace penstock {
namespace {

/// Maps of one place come to its norm.
template <class Norm>
class PointNorm final : public Model {
 public:
  explicit PointNorm(Norm norm) {
    torch::nn::Conv2d conv = register_module("conv", torch::nn::Conv2d(1, 4, 12));
    register_module("norm", norm);
    torch::nn::Linear fc = register_module("fc", torch::nn::Linear(4, 4));
    add_block("conv", {"conv"}, [conv](const torch::Tensor& x) mutable { return conv(x); });
    add_block("rest", {"norm", "fc"}, [norm, fc](const torch::Tensor& x) mutable {
      if constexpr (std::is_same_v<Norm, torch::nn::BatchNorm1d>) return fc(norm(x.flatten(1)));
      return fc(norm(x).flatten(1));
    });
  }
};

std::unique_ptr<Model> make_point() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  at::manual_seed(5);
  return std::make_unique<PointNorm<BatchNorm2d>>(BatchNorm2d(4));
}

struct LeftCase {
  std::string mode;
  int ranks = 1;
  int64_t rows = 0, first = 0, count = 0;  // of the short batch; those of it that are left
  int micro_shards = 0;
};

TEST(SingleRowsTest, ALayerWithOneValuePerChannelIsNamed) {
  const auto resnet = make("resnet18", kSmallPhotos);
  resnet->eval();
  const auto before = own_model(*resnet);
  at::manual_seed(7);
  EXPECT_EQ(norm_without_variance(*resnet, {.channels = 3, .height = 32, .width = 32}), "layer4.0.bn1");
  EXPECT_EQ(norm_without_variance(*resnet, kSmallPhotos), "");
  const auto first = torch::rand({3});
  at::manual_seed(7);
  EXPECT_TRUE(torch::rand({3}).equal(first));
  EXPECT_FALSE(resnet->is_training());
  for (const auto& [name, tensor] : own_model(*resnet)) EXPECT_TRUE(tensor.equal(before.at(name))) << name;
  for (const auto& tensor : resnet->parameters()) detail::release_memory(tensor);
  for (const auto& tensor : resnet->buffers()) detail::release_memory(tensor);
  EXPECT_EQ(norm_without_variance(*resnet, {.channels = 3, .height = 32, .width = 32}), "layer4.0.bn1");
  EXPECT_EQ(detail::storage_bytes(resnet->parameters()), 0);
  resnet->freeze("layer4");
  EXPECT_EQ(norm_without_variance(*resnet, {.channels = 3, .height = 32, .width = 32}), "");
}

TEST(SingleRowsTest, LayersOfLibTorchAreNamedToo) {
  PointNorm one(torch::nn::BatchNorm1d(4));
  EXPECT_EQ(norm_without_variance(one, kSmallGrey), "norm");
  PointNorm two(torch::nn::BatchNorm2d(torch::nn::BatchNorm2dOptions(4).track_running_stats(false)));
  EXPECT_EQ(norm_without_variance(two, kSmallGrey), "rest");
}

TEST(SingleRowsTest, FollowFromTheModeTheBatchAndTheSamples) {
  const auto plan = [](const char* mode, const Mesh& mesh) {
    return plan_of(parse_spec("mode", mode), {.ranks = mesh.size(), .micro_shards = mesh.micro_shards});
  };
  const auto of = [&](const char* mode, const Mesh& mesh, int64_t batch_size, int64_t samples) {
    return single_rows(plan(mode, mesh), {.batch_size = batch_size, .samples = samples});
  };
  using enum SingleRows;
  EXPECT_EQ(of("single", {}, 8, 16), kNone);
  EXPECT_EQ(of("single", {}, 8, 17), kShortBatch);
  EXPECT_EQ(of("single", {}, 8, 1), kAll);
  EXPECT_EQ(of("single", {}, 1, 8), kAll);
  EXPECT_EQ(of("single(accumulate=8)", {}, 8, 16), kAll);
  EXPECT_EQ(of("single(accumulate=2)", {}, 8, 21), kShortBatch);  // 4 and 1 rows
  EXPECT_EQ(of("single(accumulate=2)", {}, 8, 22), kNone);
  EXPECT_EQ(of("ddp", {.data = 2}, 2, 64), kAll);
  EXPECT_EQ(of("ddp", {.data = 2}, 3, 6), kAll);  // 1 and 2 rows
  EXPECT_EQ(of("ddp", {.data = 2}, 8, 19), kShortBatch);
  EXPECT_EQ(of("ddp", {.data = 2}, 8, 20), kNone);
  EXPECT_EQ(of("ddp(sync-bn=true)", {.data = 2}, 2, 64), kNone);
  EXPECT_EQ(of("ddp(sync-bn=true)", {.data = 2}, 8, 17), kShortBatch);
  EXPECT_EQ(of("dp", {}, 8, 19), kShortBatch);
  EXPECT_EQ(of("dp(devices=cpu:4)", {}, 5, 10), kAll);  // 2, 2 and 1 rows
  EXPECT_EQ(of("mp", {.pipe = 2}, 8, 18), kNone);
  EXPECT_EQ(of("pipeline(micro-batches=8)", {.pipe = 2}, 8, 16), kAll);
  EXPECT_EQ(of("pipeline(data=2,micro-batches=2)", {.data = 2, .pipe = 2}, 8, 16), kNone);
  EXPECT_EQ(of("single", {.micro_shards = 8}, 8, 16), kAll);
  EXPECT_EQ(of("ddp", {.data = 2, .micro_shards = 4}, 8, 19), kShortBatch);
  EXPECT_EQ(of("ddp", {.data = 2, .micro_shards = 4}, 8, 18), kNone);
  EXPECT_EQ(single_rows(plan("single", {}), {.batch_size = 8, .samples = 17, .drops_tail = true}), kNone);
  EXPECT_EQ(single_rows(plan("ddp", {.data = 2}), {.batch_size = 8, .samples = 20, .is_by_rank = true}), kShortBatch);
}

/// The first 8 samples, and `count` others from `first` on.
Samples eight_and(const Samples& samples, int64_t first, int64_t count) {
  const auto taken = [&](const torch::Tensor& of) {
    return torch::cat({of.narrow(0, 0, 8), of.narrow(0, 8 + first, count)});
  };
  return {taken(samples.images), taken(samples.labels)};
}

/// After a full batch of 8 rows comes one of `rows`, of which `single` gets those alone that are left. Running
/// statistics are those of data rank 0, which has none of them where these do not begin with the first row.
void expect_left(const LeftCase& one, const Samples& samples) {
  StateDict before, after;
  run_ranks(
      one.ranks,
      [&](Comm& comm) {
        StrategyHarness trainee(one.mode, make_point, comm, kSgd, torch::kFloat64, torch::kCPU, {}, one.micro_shards,
                                {.leaves_out_single_rows = true});
        auto& strategy = *trainee.strategy;
        const auto given = eight_and(samples, 0, one.rows);
        EXPECT_TRUE(strategy.step(trainee.part(given, 8, 0)).has_rows);
        auto states = std::pair(strategy.state(), StateDict());
        EXPECT_EQ(strategy.step(trainee.part(given, 8, 1)).has_rows, one.count > 0);
        states.second = strategy.state();
        if (comm.rank() == 0) std::tie(before, after) = std::move(states);
      },
      /*step_seconds=*/60, Network::kThreads);
  const std::string where = one.mode + ", " + std::to_string(one.rows) + " rows";
  auto expected = before;
  if (one.count > 0) {
    const auto self = make_self_comm();
    StrategyHarness plain("single", make_point, *self, kSgd, torch::kFloat64, torch::kCPU, {}, one.micro_shards);
    plain.strategy->load_state(before);
    auto batch = plain.part(eight_and(samples, one.first, one.count), 8, 1);
    batch.global_count = one.rows;
    plain.strategy->step(batch);
    expected = plain.strategy->state();
    EXPECT_FALSE(after.at("model.conv.weight").equal(before.at("model.conv.weight"))) << where;
  }
  for (const auto& [name, tensor] : expected) {
    const bool is_statistic = name.find("running") != std::string::npos || name.find("tracked") != std::string::npos;
    if (one.first > 0 && is_statistic) continue;
    EXPECT_TRUE(after.at(name).allclose(tensor, 1e-11, 1e-14)) << where << ": " << name;
  }
}

TEST(SingleRowsTest, WhatGoesThroughTheModelAloneIsLeftOut) {
  const auto samples = random_samples(16, kSmallGrey, 4);
  for (const auto& one :
       {LeftCase{"single", 1, 1, 0, 0}, LeftCase{"single(accumulate=2)", 1, 5, 0, 4},
        LeftCase{"dp(devices=cpu:2)", 1, 3, 0, 2}, LeftCase{"dp(devices=cpu:2)", 1, 2, 0, 0},
        LeftCase{"ddp", 2, 3, 1, 2}, LeftCase{"ddp", 2, 2, 0, 0}, LeftCase{"zero(stage=3)", 2, 1, 0, 0},
        LeftCase{"ddp(sync-bn=true)", 2, 1, 0, 0}, LeftCase{"pipeline(micro-batches=2)", 2, 5, 0, 4},
        LeftCase{"pipeline(data=2,micro-batches=2)", 4, 3, 1, 2}, LeftCase{"ddp", 2, 1, 0, 0, 4},
        LeftCase{"ddp", 2, 3, 0, 2, 4}, LeftCase{"dp(devices=cpu:2)", 1, 3, 0, 2, 4}})
    expect_left(one, samples);
}

}  // namespace
}  // namespace penstock
