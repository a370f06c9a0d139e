// DeferredBatchNorm: running statistics of the whole batch, against a loop by hand.
#include "train/parallel/sync/deferred_batch_norm.h"

#include <gtest/gtest.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "core/error.h"
#include "tests/support/testing.h"
#include "tests/train/plain_optimizer.h"
#include "tests/train/rank_threads.h"
#include "tests/train/strategy_batches.h"
#include "train/nn/batch_norm.h"
#include "train/parallel/strategy/stage_cuts.h"
#include "train/parallel/strategy/strategy.h"

namespace penstock {
namespace {

constexpr int64_t kNormsBatch = 8, kTogether = 2;  // rows, and those of a micro-batch

/// Two convolutions, each with a BatchNorm, for pictures of 1 x 12 x 12.
class TwoNorms final : public Model {
 public:
  TwoNorms() {
    for (const std::string number : {"1", "2"}) {
      torch::nn::Conv2d conv = register_module("conv" + number, torch::nn::Conv2d(number == "1" ? 1 : 3, 3, 3));
      BatchNorm2d norm = register_module("norm" + number, BatchNorm2d(3));
      add_block("conv" + number, {"conv" + number}, [conv](const torch::Tensor& x) mutable { return conv(x); });
      add_block("norm" + number, {"norm" + number}, [norm](const torch::Tensor& x) mutable { return norm(x).relu(); });
    }
    torch::nn::Linear fc = register_module("fc", torch::nn::Linear(192, 4));
    add_block("fc", {"fc"}, [fc](const torch::Tensor& x) mutable { return fc(x.flatten(1)); });
  }
};

std::unique_ptr<Model> make_norms() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  at::manual_seed(5);
  return std::make_unique<TwoNorms>();
}

StateDict train_norms(const std::string& mode, int ranks, const Samples& samples, int64_t steps) {
  StateDict state;
  run_ranks(
      ranks,
      [&](Comm& comm) {
        StrategyHarness one(mode, make_norms, comm, kSgd);
        for (int64_t i = 0; i < steps; ++i) one.strategy->step(one.part(samples, kNormsBatch, i));
        if (auto all = one.strategy->state(); comm.rank() == 0) state = std::move(all);
      },
      /*step_seconds=*/60, Network::kThreads);
  return state;
}

/// The same without a model's forward: micro-batches are normalised by hand, and the statistics of a layer are those of
/// what it has seen in all of them.
StateDict by_hand(const Samples& samples, int64_t steps) {
  const auto model = make_norms();
  model->to(torch::kFloat64);
  auto state = own_model(*model);
  std::vector<torch::Tensor> parameters, gradients;
  std::map<std::string, torch::Tensor> p;
  for (const auto& item : model->named_parameters()) p[item.key()] = item.value(), parameters.push_back(item.value());
  PlainOptimizer optimizer(kSgd);
  const std::vector<int64_t> places{0, 2, 3};
  for (int64_t step = 0; step < steps; ++step) {
    std::map<std::string, std::vector<torch::Tensor>> seen;
    const auto normalised = [&](const torch::Tensor& x, const std::string& name) {
      seen[name].push_back(x.detach());
      const auto mean = x.mean(places, true), variance = x.var(places, /*unbiased=*/false, true);
      return ((x - mean) / (variance + 1e-5).sqrt() * p[name + ".weight"].view({1, 3, 1, 1}) +
              p[name + ".bias"].view({1, 3, 1, 1}))
          .relu();
    };
    const int64_t first = step * kNormsBatch, count = std::min(kNormsBatch, samples.labels.size(0) - first);
    for (int64_t row = 0; row < count; row += kTogether) {
      const int64_t rows = std::min(kTogether, count - row);
      auto x = samples.images.narrow(0, first + row, rows);
      for (const std::string number : {"1", "2"})
        x = normalised(torch::conv2d(x, p["conv" + number + ".weight"], p["conv" + number + ".bias"]), "norm" + number);
      const auto logits = torch::linear(x.flatten(1), p["fc.weight"], p["fc.bias"]);
      const auto losses = torch::cross_entropy_loss(logits, samples.labels.narrow(0, first + row, rows), {}, 0);
      (losses.sum() / static_cast<double>(count)).backward();
    }
    gradients.clear();
    for (auto& parameter : parameters) gradients.push_back(parameter.grad().clone()), parameter.mutable_grad().reset();
    optimizer.step(parameters, gradients);
    for (const auto& [name, inputs] : seen) {
      const auto all = torch::cat(inputs);
      auto &mean = state.at("model." + name + ".running_mean"), &variance = state.at("model." + name + ".running_var");
      mean = 0.9 * mean + 0.1 * all.mean(places);
      variance = 0.9 * variance + 0.1 * all.var(places, /*unbiased=*/true);
      state.at("model." + name + ".num_batches_tracked") += 1;
    }
  }
  for (const auto& [name, tensor] : p) state.at("model." + name) = tensor.detach().clone();
  return state;
}

/// Batches of 8, 8 and 5 rows: the last micro-batch has one row.
TEST(DeferredBatchNormTest, RunningStatisticsAreThoseOfTheWholeBatchOncePerStep) {
  const auto samples = random_samples(21, kSmallGrey, 4);
  const auto expected = by_hand(samples, 3), of_two = by_hand(samples, 2);
  EXPECT_EQ(expected.at("model.norm2.num_batches_tracked").item<int64_t>(), 3);
  for (const auto& [mode, ranks] :
       {std::pair{"single(accumulate=4,deferred-bn=true)", 1}, std::pair{"ddp(accumulate=2,deferred-bn=true)", 2},
        std::pair{"zero(accumulate=2,deferred-bn=true)", 2},
        std::pair{"zero(stage=2,accumulate=2,deferred-bn=true)", 2}, std::pair{"pipeline(deferred-bn=true)", 2},
        std::pair{"pipeline(schedule=gpipe,recompute=always,deferred-bn=true)", 2},
        std::pair{"pipeline(recompute=except-last,deferred-bn=true)", 3},
        std::pair{"pipeline(schedule=interleaved,deferred-bn=true)", 2},
        std::pair{"pipeline(data=2,micro-batches=2,zero=1,deferred-bn=true)", 4}}) {
    auto state = train_norms(mode, ranks, samples, 3);
    for (const auto& [name, tensor] : expected)
      EXPECT_TRUE(state.at(name).allclose(tensor, 1e-11, 1e-13)) << mode << ": " << name;
  }
  for (const auto& [mode, ranks] :
       {std::pair{"ddp(deferred-bn=true)", 4}, std::pair{"zero(stage=3,deferred-bn=true)", 4}}) {
    auto state = train_norms(mode, ranks, samples, 2);
    for (const auto& [name, tensor] : of_two)
      EXPECT_TRUE(state.at(name).allclose(tensor, 1e-11, 1e-13)) << mode << ": " << name;
  }
}

/// The first layer sees the same in both; those after it see what has been normalised by fewer rows.
TEST(DeferredBatchNormTest, ALayerThatSeesWhatItSeesInSingleHasItsStatistics) {
  const auto samples = random_samples(8, kSmallGrey, 4);
  const auto single = train_norms("single", 1, samples, 1);
  const auto differs = [&](const char* mode, const char* name) {
    return !train_norms(mode, 1, samples, 1).at(name).allclose(single.at(name), 1e-12, 1e-14);
  };
  for (const char* name : {"model.norm1.running_mean", "model.norm1.running_var", "model.norm1.num_batches_tracked"}) {
    EXPECT_FALSE(differs("single(accumulate=4,deferred-bn=true)", name)) << name;
    EXPECT_TRUE(differs("single(accumulate=4)", name)) << name;
  }
}

/// A mean of 3000 squared leaves f32 no digit of a variance of 1.
TEST(DeferredBatchNormTest, LargeMeansDoNotCostTheVarianceItsDigits) {
  at::manual_seed(2);
  const auto x = torch::randn({8, 2, 6, 6}) + 3000;
  BatchNorm2d layer(2);
  layer->defer(true);
  layer->collect(true);
  for (const auto& rows : x.split(2)) layer(rows);
  layer->collect(false);
  layer(x.narrow(0, 0, 1));  // a forward that is run again
  layer->commit(layer->take_collected().unsqueeze(0));
  const auto variance = x.to(torch::kFloat64).var(std::vector<int64_t>{0, 2, 3}, /*unbiased=*/true);
  EXPECT_TRUE(layer->running_var.to(torch::kFloat64).allclose(0.9 + 0.1 * variance, 1e-5, 0)) << layer->running_var;
  const auto before = layer->running_mean.clone();
  layer->commit(layer->take_collected().unsqueeze(0));  // nothing has been seen
  EXPECT_TRUE(layer->running_mean.equal(before));
  EXPECT_EQ(layer->num_batches_tracked.item<int64_t>(), 1);
}

TEST(DeferredBatchNormTest, WhatItDoesNotGoTogetherWithIsRefused) {
  const auto mesh_error = [](const std::string& text, int micro_shards) {
    const Spec spec = parse_spec("mode", text);
    return message_of(ErrorKind::kConfig,
                      [&] { plan_of(spec, {.ranks = spec.name() == "single" ? 1 : 2, .micro_shards = micro_shards}); });
  };
  for (const std::string mode : {"single", "ddp", "zero", "pipeline"})
    EXPECT_EQ(mesh_error(mode + "(deferred-bn=true)", 8),
              "--mode " + mode +
                  ": deferred-bn is true with --exact 8; expected one of them: with --exact running statistics move by "
                  "the mean of the shards");
  EXPECT_EQ(mesh_error("ddp(sync-bn=true,deferred-bn=true)", 0),
            "--mode ddp: sync-bn is true and deferred-bn is true; expected one of them: with sync-bn the running "
            "statistics are those of the batch");
  EXPECT_EQ(mesh_error("ddp(local-steps=2,deferred-bn=true)", 0),
            "--mode ddp: local-steps is 2 with deferred-bn=true; expected one of them: BatchNorm would wait for all "
            "ranks in every step");
  const TinyNorm model;
  for (const std::string mode : {"single", "zero", "pipeline"})
    EXPECT_EQ(message_of(ErrorKind::kConfig,
                         [&] {
                           detail::fitted(plan_of(parse_spec("mode", mode + "(deferred-bn=true)"), {.ranks = 1}),
                                          detail::facts_of(model));
                         }),
              "--mode " + mode +
                  ": deferred-bn is true, but norm is a BatchNorm of LibTorch, which sees one micro-batch alone; "
                  "expected penstock::BatchNorm2d (train/nn/batch_norm.h)");
}

}  // namespace
}  // namespace penstock
