// A strategy's state: handed over tensor by tensor, so that no rank needs memory for what it does not hold.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "core/atomic_file.h"
#include "tests/support/testing.h"
#include "tests/train/allocation_peak.h"
#include "tests/train/rank_threads.h"
#include "tests/train/strategy_batches.h"
#include "train/checkpoint/save.h"
#include "train/parallel/strategy/buckets.h"
#include "train/tensor/tensor_file.h"

namespace penstock {
namespace {

// 400 x 400 numbers each: more than 1 MiB in f64, so that zero(stage=3) gathers them one by one.
const std::string kSixOf400 = "mlp(hidden=400:400:400:400:400:400)";
constexpr ModelShape kOf400{.channels = 1, .height = 20, .width = 20, .classes = 10};

struct StateCase {
  std::string mode;
  int ranks;
};

/// Model and momentum together are twelve times the largest tensor, and what one rank holds of them is six times that.
TEST(StateTest, RanksTogetherTakeTheMemoryOfTwoTensorsForAStateAndOfOneMorePerRank) {
  constexpr int64_t kLargest = 400 * 400 * 8;
  for (const auto& [mode, ranks] : {StateCase{"mp", 2}, StateCase{"pipeline(schedule=interleaved)", 2},
                                    StateCase{"zero", 2}, StateCase{"zero(stage=3)", 2}, StateCase{"ddp", 2}})
    for (const auto network : {Network::kGloo, Network::kThreads}) {
      AllocationPeak peak;
      const auto body = [&, mode = mode](Comm& comm) {
        StrategyHarness one(mode, make(kSixOf400, kOf400), comm, kSgd);
        comm.barrier();
        peak.count([&] { one.strategy->for_each_state([](const auto&, const auto&) {}); });
        comm.barrier();
      };
      run_ranks(ranks, body, /*step_seconds=*/60, network);
      EXPECT_LE(peak.bytes(), (2 + ranks) * kLargest + 100'000)
          << mode << (network == Network::kGloo ? "" : ", threads");
    }
}

TEST(StateTest, TensorsComeInTheOrderOfTheirNamesAndInTheirSizesAtRankZeroAlone) {
  for (const auto& [mode, ranks] :
       {StateCase{"single", 1}, StateCase{"pipeline(schedule=interleaved)", 2}, StateCase{"zero(stage=3)", 3},
        StateCase{"pipeline(data=2,micro-batches=2)", 4}, StateCase{"ddp(compress=powersgd)", 2}})
    run_ranks(ranks, [&, mode = mode](Comm& comm) {
      StrategyHarness one(mode, make("lenet"), comm, {.spec = "adamw"});
      const auto sizes = one.strategy->state_sizes();
      size_t count = 0;
      one.strategy->for_each_state([&](const std::string& name, const torch::Tensor& tensor) {
        ASSERT_LT(count, sizes.size());
        EXPECT_EQ(name, sizes[count].first) << mode;
        EXPECT_EQ(tensor.sizes(), sizes[count].second.sizes()) << name;
        EXPECT_EQ(tensor.scalar_type(), sizes[count].second.scalar_type()) << name;
        ++count;
      });
      EXPECT_EQ(count, comm.rank() == 0 ? sizes.size() : 0) << mode;
    });
}

/// Its moments are divided by 1 - beta^steps: without the number it would take large steps again.
TEST(StateTest, AdamGoesOnWithItsNumberOfStepsInEveryMode) {
  const auto samples = random_samples(32, kSmallGrey, 3);
  for (const auto& [mode, ranks] : {StateCase{"single", 1}, StateCase{"zero", 2}, StateCase{"zero(stage=3)", 2},
                                    StateCase{"pipeline(micro-batches=2)", 2}}) {
    StateDict middle;
    run_ranks(ranks, [&, mode = mode](Comm& comm) {
      const OptimizerOptions adam{.learning_rate = 1e-3, .spec = "adam"};
      StrategyHarness whole(mode, make_small_lenet(), comm, adam), resumed(mode, make_small_lenet(), comm, adam);
      for (int64_t step = 0; step < 3; ++step) whole.strategy->step(whole.part(samples, 8, step));
      auto state = whole.strategy->state();
      if (comm.rank() == 0) middle = std::move(state);
      comm.barrier();
      resumed.strategy->load_state(middle);
      for (auto* one : {&whole, &resumed}) one->strategy->step(one->part(samples, 8, 3));
      const auto expected = whole.strategy->state(), found = resumed.strategy->state();
      if (comm.rank() != 0) return;
      EXPECT_EQ(found.at("optimizer.steps").item<int64_t>(), 4) << mode;
      EXPECT_EQ(relative_difference(expected, found), 0) << mode;
    });
  }
}

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The names of a checkpoint are in the order of an earlier version, which collected them in a map; so are its bytes.
TEST(StateTest, AFileHasTheSameBytesInEveryModeAndThoseOfTheWholeState) {
  const TemporaryFolder folder("state-files");
  const auto file = [&](const std::string& name) { return folder.path() / name; };
  CheckpointInfo info;
  info.arch = "lenet";
  std::string checkpoint, model;
  for (const auto& [mode, ranks] : {StateCase{"single", 1}, StateCase{"pipeline(schedule=interleaved)", 2},
                                    StateCase{"zero", 3}, StateCase{"zero(stage=3)", 2}}) {
    run_ranks(ranks, [&, mode = mode](Comm& comm) {
      StrategyHarness one(mode, make("lenet"), comm, kSgd);
      write_checkpoint({*one.strategy, comm, torch::kCPU}, file("checkpoint"), info, TrainOptions());
      write_model({*one.strategy, comm, torch::kCPU}, folder.path(), "lenet", /*with_unaveraged=*/false);
      const auto state = one.strategy->state();
      if (comm.rank() != 0) return;
      write_tensors(file("whole"), state, {{"penstock", read_tensors(file("checkpoint")).metadata.at("penstock")}});
    });
    EXPECT_TRUE(bytes_of(file("checkpoint")) == bytes_of(file("whole"))) << mode;
    if (checkpoint.empty()) checkpoint = bytes_of(file("checkpoint")), model = bytes_of(file(kModelFile));
    EXPECT_TRUE(bytes_of(file("checkpoint")) == checkpoint) << mode;
    EXPECT_TRUE(bytes_of(file(kModelFile)) == model) << mode;
  }
}

/// One number of rank 1's part: both ranks end with the same line, and the file is as it was.
TEST(StateTest, EveryRankKnowsThatAStateIsNotFiniteBeforeAFileIsReplaced) {
  const TemporaryFolder folder("state-finite");
  const auto path = folder.path() / "checkpoint";
  write_text(path, "before");
  CheckpointInfo info;
  info.position.step = 7;
  TrainOptions options;
  options.learning_rate = 0.1;
  run_ranks(2, [&](Comm& comm) {
    StrategyHarness one("mp(cut=fc1)", make("lenet"), comm, kSgd);
    at::NoGradGuard no_grad;
    if (comm.rank() == 1) one.model->named_parameters()["fc3.weight"][3][5] = NAN;
    const auto message = message_of(ErrorKind::kConfig, [&] {
      write_checkpoint({*one.strategy, comm, torch::kCPU}, path, info, options);
    });
    EXPECT_EQ(message,
              "epoch 0, step 7: model.fc3.weight holds nan or infinity, the run diverged; expected finite numbers, try "
              "a lower --lr than 0.1 (earlier checkpoints are as they were)");
  });
  EXPECT_EQ(bytes_of(path), "before");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

}  // namespace
}  // namespace penstock
