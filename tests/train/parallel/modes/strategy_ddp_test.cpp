// ddp: reaches the parameters of single with any number of ranks, and communicates during backward.
#include <gtest/gtest.h>

#include "core/text.h"
#include "tests/train/lone_comm.h"
#include "tests/train/rank_threads.h"
#include "tests/train/strategy_batches.h"

namespace penstock {
namespace {

struct DdpTraining {
  std::string arch;
  ModelShape shape;
  int64_t batch_size, step_count;
};

/// One entry per rank: its model after the first steps over `samples`. Ranks start from different weights, and those of
/// rank 0 must be used.
std::vector<StateDict> train(const std::string& mode, int world_size, const DdpTraining& training,
                             const Samples& samples) {
  std::vector<StateDict> states(static_cast<size_t>(world_size));
  run_ranks(world_size, [&](Comm& comm) {
    StrategyHarness one(mode, make(training.arch, training.shape, 1 + comm.rank()), comm, kSgd);
    for (int64_t i = 0; i < training.step_count; ++i) one.strategy->step(one.part(samples, training.batch_size, i));
    one.strategy->state();  // gives every rank its buffers again
    states[static_cast<size_t>(comm.rank())] = own_model(*one.model);
  });
  return states;
}

class DdpEquivalenceTest : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Archs, DdpEquivalenceTest, testing::Values("lenet", "mlp"));

TEST_P(DdpEquivalenceTest, OneStepGivesTheParametersOfSingle) {
  for (const int64_t batch_size : {12, 13}) {
    const auto samples = random_samples(batch_size, kGrey, 3);
    const DdpTraining training{GetParam(), kGrey, batch_size, 1};
    const auto expected = train("single", 1, training, samples)[0];
    for (const int world_size : {1, 2, 3, 4})
      for (const auto& state : train("ddp", world_size, training, samples))
        EXPECT_LE(relative_difference(expected, state), 1e-12) << world_size << " ranks, batch " << batch_size;
  }
}

TEST_P(DdpEquivalenceTest, StepsWithMomentumAndAPartialLastBatchDoToo) {
  // Three batches of 13, 13 and 3 samples; over four ranks one has no sample of the last batch.
  const auto samples = random_samples(29, kGrey, 4);
  const DdpTraining training{GetParam(), kGrey, 13, 3};
  const auto expected = train("single", 1, training, samples)[0];
  for (const int world_size : {2, 3, 4})
    for (const auto& state : train("ddp", world_size, training, samples))
      EXPECT_LE(relative_difference(expected, state), 1e-12) << world_size << " ranks";
}

TEST_P(DdpEquivalenceTest, RanksAgreeToTheBit) {
  const auto samples = random_samples(29, kGrey, 4);
  const auto states = train("ddp", 3, {GetParam(), kGrey, 13, 3}, samples);
  for (const auto& state : states) EXPECT_EQ(relative_difference(states[0], state), 0);
}

// BatchNorm uses only the rows of a rank, so with a ResNet the ranks differ from single if their rows differ. Here all
// ranks have the same 3 pictures. Means and biased variances are then those of the global batch, and gradients and
// parameters must be equal. Only running_var differs, because it is multiplied by n / (n - 1) with the n of one rank.
TEST(DdpResNetTest, OneStepOverEqualPartsGivesTheParametersOfSingle) {
  const ModelShape shape{.channels = 3, .height = 33, .width = 33, .classes = 5};
  const auto part = random_samples(3, shape, 3);
  const Samples samples{part.images.repeat({2, 1, 1, 1}), part.labels.repeat({2})};
  const DdpTraining training{"resnet18", shape, 6, 1};
  const auto without_variance = [](StateDict state) {
    std::erase_if(state, [](const auto& item) { return item.first.ends_with("running_var"); });
    return state;
  };
  const auto expected = without_variance(train("single", 1, training, samples)[0]);
  for (const auto& state : train("ddp", 2, training, samples))
    EXPECT_LE(relative_difference(expected, without_variance(state)), 1e-12);
}

TEST(DdpTest, RanksStartFromRankZerosParametersAndBuffers) {
  const ModelShape shape{.channels = 1, .height = 17, .width = 17, .classes = 3};
  std::vector<StateDict> states(2);
  run_ranks(2, [&](Comm& comm) {
    auto model = make("resnet18", shape, 10 + comm.rank());
    at::NoGradGuard no_grad;
    model->named_buffers()["bn1.running_mean"].fill_(comm.rank() + 5);
    StrategyHarness one("ddp", std::move(model), comm, kSgd);
    for (const auto& item : one.model->named_parameters())
      states[comm.rank()][item.key()] = item.value().detach().clone();
    for (const auto& item : one.model->named_buffers()) states[comm.rank()][item.key()] = item.value().clone();
  });
  EXPECT_EQ(relative_difference(states[0], states[1]), 0);
  EXPECT_TRUE(states[1]["bn1.running_mean"].eq(5).all().item<bool>());
  EXPECT_TRUE(states[1]["conv1.weight"].equal(
      make("resnet18", shape, 10)->named_parameters()["conv1.weight"].to(torch::kFloat64)));
}

TEST(DdpTest, UnusedParametersAndRanksWithoutSamplesHoldNobodyUp) {
  const ModelShape shape{.channels = 1, .height = 12, .width = 12, .classes = 4};
  const auto samples = random_samples(7, shape, 2);  // batches of 5 and 2; one rank has no row of the second
  std::vector<StateDict> states(3);
  run_ranks(3, [&](Comm& comm) {
    StrategyHarness one("ddp", std::make_unique<TinyNorm>(), comm, kSgd);
    for (int64_t i = 0; i < 2; ++i) one.strategy->step(one.part(samples, 5, i));
    EXPECT_TRUE(one.model->named_parameters()["idle.weight"].grad().eq(0).all().item<bool>());
    one.strategy->state();
    states[comm.rank()] = own_model(*one.model);
  });
  for (const auto& state : states) EXPECT_EQ(relative_difference(states[0], state), 0);
}

TEST(DdpTest, EvaluationUsesTheBuffersOfRankZero) {
  const ModelShape shape{.channels = 1, .height = 12, .width = 12, .classes = 4};
  const auto samples = random_samples(8, shape, 2);
  std::vector<torch::Tensor> logits(2);
  run_ranks(2, [&](Comm& comm) {
    StrategyHarness one("ddp", std::make_unique<TinyNorm>(), comm, kSgd);
    one.strategy->step(one.part(samples, 8, 0));
    auto batch = part_of(samples, 8, 0, 0, 1);
    logits[comm.rank()] = one.strategy->evaluate(batch);
  });
  EXPECT_TRUE(logits[0].equal(logits[1]));
}

/// The communicator of a single rank, which records what `probe` returns whenever a reduction starts.
class RecordingComm final : public LoneComm {
 public:
  explicit RecordingComm(std::function<bool()> probe) : probe_(std::move(probe)) {}
  std::unique_ptr<Work> all_reduce_sum(torch::Tensor& tensor) override {
    started_.push_back({tensor.numel(), probe_()});
    return LoneComm::all_reduce_sum(tensor);
  }

  using Started = std::vector<std::pair<int64_t, bool>>;
  Started take() { return std::exchange(started_, {}); }

 private:
  std::function<bool()> probe_;
  Started started_;
};

// In float64 fc3 has 48 kB, fc2 2.9 MB and fc1 3.8 MB. The first bucket ends with fc2.weight, with which it reaches 1
// MiB.
TEST(DdpTest, TheFirstBucketIsOnItsWayBeforeTheLastGradientIsThere) {
  auto model = make("mlp(hidden=600:600)", kGrey, 1);
  auto& last = *model;
  RecordingComm comm([&] { return last.named_parameters()["fc1.weight"].grad().ne(0).any().item<bool>(); });
  StrategyHarness one("ddp", std::move(model), comm, kSgd);
  const auto samples = random_samples(4, kGrey, 1);
  const int64_t first = 10 * 601 + 600 * 601, second = 600 * 785;
  for (int step = 0; step < 2; ++step) {
    one.strategy->step(one.part(samples, 4, 0));
    EXPECT_EQ(comm.take(), (RecordingComm::Started{{first, false}, {second, true}})) << "step " << step;
  }
}

TEST(DdpTest, GradientsOfABucketShareItsMemoryThroughoutTraining) {
  RecordingComm comm([] { return true; });
  StrategyHarness one("ddp", make("lenet", kGrey, 1), comm, kSgd);
  const auto samples = random_samples(4, kGrey, 1);
  const auto pointers = [&] {
    std::vector<void*> list;
    for (const auto& parameter : one.model->parameters()) list.push_back(parameter.grad().data_ptr());
    return list;
  };
  const auto before = pointers();
  for (int i = 0; i < 3; ++i) one.strategy->step(one.part(samples, 4, 0));
  EXPECT_EQ(pointers(), before);
  for (const auto& parameter : one.model->parameters())
    EXPECT_TRUE(parameter.grad().storage().is_alias_of(one.model->parameters()[0].grad().storage()));
}

TEST(DdpTest, AModelOutlivesItsStrategy) {
  RecordingComm comm([] { return true; });
  auto model = make("lenet", kGrey, 1);
  Recorder recorder;
  StrategyRegistry::make(parse_spec("mode", "ddp"), StrategyContext{*model, comm, torch::kCPU, kSgd, recorder}).reset();
  model->forward(torch::rand({2, 1, 28, 28})).sum().backward();  // the hooks have been removed
  EXPECT_TRUE(comm.take().empty());
}

}  // namespace
}  // namespace penstock
