// CudaGraphStep: the bits of plain steps, on the CPU with the work of the captured step repeated in place of a graph;
// what is said where there is none; and which steps can be captured.
#include "train/loop/cuda_graph_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/train/captured_training.h"
#include "tests/train/picture_datasets.h"
#include "train/resident/resident_feeder.h"

namespace penstock {
namespace {

using testing::ElementsAre, testing::HasSubstr;

const std::string kAffine = "affine(degrees=20,translate=0.1,fill=30),normalize";

TEST(CudaGraphStepTest, TrainsTheBitsOfPlainStepsWithEveryOptimizer) {
  for (const char* optimizer : {"sgd", "sgd(nesterov=true)", "adam", "adamw", "lamb", "muon"}) {
    SCOPED_TRACE(optimizer);
    const OptimizerOptions options{.learning_rate = 0.01, .momentum = 0.9, .weight_decay = 1e-3, .spec = optimizer};
    CountingGraph::Counts counts;
    CapturedTraining captured(kAffine, "single", options);
    expect_same_bits(CapturedTraining(kAffine, "single", options).train_plainly(), captured.train_captured(counts));
    EXPECT_EQ(counts.warm_ups, CudaGraphStep::kWarmUps);
    EXPECT_EQ(counts.captures, 1);
    EXPECT_EQ(counts.replays, kCapturedEpochs * 5 - CudaGraphStep::kWarmUps);
    EXPECT_THAT(captured.said, ElementsAre());
  }
}

TEST(CudaGraphStepTest, TrainsTheBitsOfPlainStepsInMicroBatches) {
  CountingGraph::Counts counts;
  expect_same_bits(CapturedTraining(kAffine, "single(accumulate=3)").train_plainly(),
                   CapturedTraining(kAffine, "single(accumulate=3)").train_captured(counts));
}

/// From the first batch with a picture that loses its colours on, in the second epoch, another kernel makes the
/// batches.
TEST(CudaGraphStepTest, AnotherKindOfStepIsCapturedAnew) {
  const std::string augment = "shift(pad=2),flip,grayscale(p=0.003),normalize";
  CountingGraph::Counts counts;
  CapturedTraining captured(augment);
  expect_same_bits(CapturedTraining(augment).train_plainly(), captured.train_captured(counts));
  EXPECT_EQ(counts.captures, 2);
  EXPECT_EQ(counts.warm_ups, 2 * CudaGraphStep::kWarmUps);
}

TEST(CudaGraphStepTest, AStepThatCannotBeCapturedIsSaidOnceAndRunsAsItIs) {
  CountingGraph::Counts counts{.fails = true};
  CapturedTraining captured(kAffine);
  expect_same_bits(CapturedTraining(kAffine).train_plainly(), captured.train_captured(counts));
  EXPECT_EQ(counts.captures, 1);
  EXPECT_EQ(counts.replays, 0);
  ASSERT_EQ(captured.said.size(), 1u);
  EXPECT_EQ(captured.said[0],
            "--graph: the steps run without a graph, because this one cannot be captured: operation not permitted when "
            "stream is capturing");
}

TEST(CudaGraphStepTest, OnlySingleWithoutExactAndEmulationCanBeCaptured) {
  const auto why = [](const std::string& mode, int micro_shards = 0) {
    const auto comm = make_self_comm();
    const ModelMaker make = [] {
      return ModelRegistry::make(parse_spec("arch", "lenet"),
                                 ModelShape{.channels = 1, .height = 12, .width = 12, .classes = 4});
    };
    StrategyHarness one(mode, make, *comm, {}, torch::kFloat32, torch::kCPU, {8, 1, 12, 12}, micro_shards);
    return dynamic_cast<CapturableStep&>(*one.strategy).capture_obstacle();
  };
  for (const auto& mode : StrategyRegistry::names())
    EXPECT_EQ(why(mode), mode == "single" ? "" : "this mode's cannot be captured; expected --mode single") << mode;
  EXPECT_THAT(why("single", 4), HasSubstr("--exact"));
}

TEST(CudaGraphStepTest, FeedersWhoseWorkDiffersFromBatchToBatchMakeTheirBatchesThemselves) {
  Recorder recorder;
  const LoaderOptions options{.workers = 0, .batch_size = 8};
  const Pipeline pipeline("normalize", small_dataset()->manifest().statistics);
  const auto host =
      make_host_feeder(std::make_unique<Loader>(small_dataset(), pipeline, options), torch::kCPU, recorder);
  EXPECT_FALSE(host->defer_rendering());
  const Pipeline crop("random-resized-crop(size=16),normalize", jpeg_dataset()->manifest().statistics);
  EXPECT_FALSE(make_resident_feeder(jpeg_dataset(), crop, options, torch::kCPU, recorder)->defer_rendering());
}

}  // namespace
}  // namespace penstock
