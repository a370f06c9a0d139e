// Communication time: what of a step counts as communication, and for how long collectives are under way.
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include "core/text.h"
#include "tests/train/lone_comm.h"
#include "tests/train/rank_threads.h"
#include "tests/train/strategy_batches.h"
#include "train/comm/busy_time.h"
#include "train/nn/batch_norm.h"
#include "train/parallel/sharding/reduce_scatter_sync.h"
#include "train/parallel/strategy/gradient_sync.h"

namespace penstock {
namespace {

constexpr double kSumMs = 3, kGatherMs = 7;

TEST(BusyTimeTest, WhatOverlapsCountsOnceInWhateverOrderItIsTold) {
  detail::BusyTime busy;
  EXPECT_EQ(busy.add(10, 20), 10);
  EXPECT_EQ(busy.add(15, 25), 5);
  EXPECT_EQ(busy.add(5, 12), 5);
  EXPECT_EQ(busy.add(7, 23), 0);
  EXPECT_EQ(busy.add(40, 50), 10);
  EXPECT_EQ(busy.add(0, 60), 30);  // beside 5 to 25 and 40 to 50
  EXPECT_EQ(busy.add(60, 61), 1);
  EXPECT_EQ(busy.add(70, 70), 0);
  for (int64_t i = 1; i < 1000; ++i) EXPECT_EQ(busy.add(100 * i, 100 * i + 10), 10);
}

class VirtualWork final : public Comm::Work {
 public:
  explicit VirtualWork(double ms) : ms_(ms) {}
  void wait() override {}
  std::optional<double> under_way_ms() override { return ms_; }

 private:
  double ms_;
};

/// The first of two ranks, of which the other always has what this one has. Its collectives take no time, and say that
/// they took kSumMs or kGatherMs.
class MirrorComm final : public LoneComm {
 public:
  int world_size() const override { return 2; }
  std::unique_ptr<Work> all_reduce_sum(torch::Tensor& tensor) override {
    tensor.mul_(2);
    return std::make_unique<VirtualWork>(kSumMs);
  }
  std::unique_ptr<Work> reduce_scatter_sum(torch::Tensor& mine, torch::Tensor& all) override {
    mine.copy_(all.view({2, -1})[0].view_as(mine)).mul_(2);
    return std::make_unique<VirtualWork>(kSumMs);
  }
  std::unique_ptr<Work> all_gather_into(torch::Tensor& all, const torch::Tensor& mine) override {
    const auto own = mine.reshape({-1}).clone();  // it may lie in `all`
    for (int row = 0; row < 2; ++row) all.view({2, -1})[row].copy_(own);
    return std::make_unique<VirtualWork>(kGatherMs);
  }
};

/// The phases of all laps, in their order: "forward backward communication ...".
std::string phases(const Laps& laps) {
  std::vector<std::string> names;
  for (const auto& lap : laps.host) names.push_back(kPhaseNames[static_cast<size_t>(lap.phase)]);
  return join(names, " ");
}

/// The laps of the second step with this mode and model.
std::string phases_of_a_step(const std::string& mode, std::unique_ptr<Model> model, const ModelShape& shape) {
  const auto samples = random_samples(4, shape, 3);
  MirrorComm comm;
  StrategyHarness one(mode, std::move(model), comm, kSgd);
  one.strategy->step(one.part(samples, 4, 0));
  one.recorder.keep_laps();
  one.strategy->step(one.part(samples, 4, 0));
  one.recorder.end_step(1);
  return phases(one.recorder.take_laps());
}

/// For pictures of 1 x 4 x 4.
class NormModel final : public Model {
 public:
  NormModel() {
    BatchNorm2d norm = register_module("norm", BatchNorm2d(1));
    torch::nn::Linear fc = register_module("fc", torch::nn::Linear(16, 4));
    add_block("all", {"norm", "fc"}, [norm, fc](const torch::Tensor& x) mutable { return fc(norm(x).flatten(1)); });
  }
};

TEST(CommunicationTimeTest, SumsThatStartInBackwardAreNoPartOfIt) {
  EXPECT_EQ(phases_of_a_step("ddp", ModelRegistry::make(parse_spec("arch", "lenet"), kGrey), kGrey),
            "forward backward communication backward communication optimizer communication");
}

/// A gather in the forward of the layer and one in its backward, and then the sum of the gradients.
TEST(CommunicationTimeTest, GathersOfSyncedNormsAreNoPartOfForwardAndBackward) {
  EXPECT_EQ(
      phases_of_a_step("ddp(sync-bn=true)", std::make_unique<NormModel>(),
                       {.channels = 1, .height = 4, .width = 4, .classes = 4}),
      "forward communication forward backward communication backward communication backward communication optimizer "
      "communication");
}

/// There are three buckets. The last one waits in backward for the first one, so that only two take memory.
TEST(CommunicationTimeTest, AScatterThatWaitsInBackwardIsNoPartOfIt) {
  MirrorComm comm;
  Recorder recorder;
  NamedTensors trained;
  for (const char* name : {"first", "second", "third"})
    trained.emplace_back(name, torch::ones({4}, torch::kFloat64).requires_grad_());
  auto buckets = detail::slice_parameters(values(trained), {{2}, {1}, {0}}, comm);
  for (auto& bucket : buckets) bucket.gradient = torch::zeros_like(bucket.slice);
  const auto sync = detail::make_reduce_scatter_sync({trained, comm, recorder}, buckets);
  auto output = torch::ones({4}, torch::kFloat64);
  for (const auto& [name, tensor] : trained) output = output * tensor;  // backward comes to the third one first
  recorder.keep_laps();
  recorder.enter(Phase::kBackward);
  sync->begin();
  output.sum().backward();
  recorder.mark(Phase::kBackward);
  recorder.enter(Phase::kCommunication);
  sync->finish();
  recorder.mark(Phase::kCommunication);
  recorder.end_step(1);
  // Start, start, wait, start.
  EXPECT_EQ(phases(recorder.take_laps()),
            "backward communication backward communication backward communication backward communication backward "
            "communication");
  for (const auto& bucket : buckets) EXPECT_TRUE(bucket.gradient.eq(2).all().item<bool>());
}

/// The times of a step's collectives are read when the next step begins, so that those of the last one are missing. A
/// BatchNorm gathers in forward and in backward.
TEST(CommunicationTimeTest, EveryCollectiveOfAStepIsCounted) {
  struct Case {
    std::string mode;
    double all, after_backward;
  };
  const ModelShape small{.channels = 1, .height = 4, .width = 4, .classes = 4};
  const auto samples = random_samples(4, small, 3);
  for (const auto& [mode, all, after_backward] :
       {Case{"ddp", kSumMs, kSumMs}, Case{"ddp(sync-bn=true)", kSumMs + 2 * kGatherMs, kSumMs},
        Case{"zero", kSumMs + kGatherMs, kSumMs + kGatherMs},
        Case{"zero(stage=2)", kSumMs + kGatherMs, kSumMs + kGatherMs},
        Case{"zero(stage=3)", kSumMs + kGatherMs, kSumMs}}) {
    MirrorComm comm;
    StrategyHarness one(mode, std::make_unique<NormModel>(), comm, kSgd);
    for (int step = 0; step < 2; ++step) {
      one.strategy->step(one.part(samples, 4, 0));
      one.recorder.end_step(step + 1);
    }
    const auto steps = one.recorder.collectives_of_steps();
    ASSERT_EQ(steps.size(), 1U);  // without the last one
    EXPECT_FLOAT_EQ(steps[0].all, all) << mode;
    EXPECT_FLOAT_EQ(steps[0].after_backward, after_backward) << mode;
    const auto waited = static_cast<float>(one.recorder.times()[Phase::kCommunication]);
    EXPECT_TRUE(steps[0].exposed > 0 && steps[0].exposed <= waited) << mode;
  }
}

}  // namespace
}  // namespace penstock
