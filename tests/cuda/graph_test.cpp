// Captured steps on CUDA: replays of a graph train the bits of plain steps, and what cannot be captured runs as it is.
#include <ATen/Context.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cuda/device.h"
#include "tests/train/captured_training.h"

namespace penstock {
namespace {

const std::string kAugment = "affine(degrees=20,translate=0.1,fill=30),normalize";

OptimizerOptions optimizer_of(const std::string& spec) {
  return {.learning_rate = 0.01, .momentum = 0.9, .weight_decay = 1e-3, .spec = spec};
}

/// Two runs with the same kernels give the same bits only if these add in one order.
class CudaGraphTest : public testing::Test {
 protected:
  CudaGraphTest() { at::globalContext().setDeterministicCuDNN(true); }
  ~CudaGraphTest() override { at::globalContext().setDeterministicCuDNN(false); }
};

TEST_F(CudaGraphTest, ReplaysTrainTheBitsOfPlainSteps) {
  for (const char* spec : {"sgd", "adamw", "lamb"}) {
    SCOPED_TRACE(spec);
    CountingGraph::Counts counts;
    CapturedTraining captured(kAugment, "single", optimizer_of(spec), kGpu);
    expect_same_bits(CapturedTraining(kAugment, "single", optimizer_of(spec), kGpu).train_plainly(),
                     captured.train_captured(counts));
    EXPECT_THAT(captured.said, testing::ElementsAre());
    EXPECT_EQ(counts.captures, 1);
    EXPECT_EQ(counts.replays, kCapturedEpochs * 5 - CudaGraphStep::kWarmUps);
  }
}

TEST_F(CudaGraphTest, AnotherKindOfStepIsCapturedAnew) {
  const std::string augment = "shift(pad=2),flip,grayscale(p=0.003),normalize";
  CountingGraph::Counts counts;
  CapturedTraining captured(augment, "single", optimizer_of("sgd"), kGpu);
  expect_same_bits(CapturedTraining(augment, "single", optimizer_of("sgd"), kGpu).train_plainly(),
                   captured.train_captured(counts));
  EXPECT_THAT(captured.said, testing::ElementsAre());
  EXPECT_EQ(counts.captures, 2);
}

/// LeNet, whose first stage reads a number from the device.
class ReadingModel final : public Model {
 public:
  ReadingModel() {
    const auto lenet = register_module("lenet", std::shared_ptr<Model>(CapturedTraining::make_normed_lenet()));
    add_block("all", {"lenet"},
              [lenet](const torch::Tensor& x) { return lenet->forward(x) + (x.sum().item<float>() > 1e30f ? 1 : 0); });
  }
};

TEST_F(CudaGraphTest, AModelThatReadsFromTheDeviceIsSaidOnceAndRunsAsItIs) {
  const auto make = [] { return std::make_unique<ReadingModel>(); };
  CountingGraph::Counts counts;
  CapturedTraining captured(kAugment, "single", optimizer_of("sgd"), kGpu, make);
  expect_same_bits(CapturedTraining(kAugment, "single", optimizer_of("sgd"), kGpu, make).train_plainly(),
                   captured.train_captured(counts));
  EXPECT_EQ(counts.replays, 0);
  ASSERT_EQ(captured.said.size(), 1u);
  EXPECT_THAT(captured.said[0], testing::HasSubstr("cannot be captured: CUDA error: "));
  // A graph of another model can be captured afterwards.
  CapturedTraining next(kAugment, "single", optimizer_of("sgd"), kGpu);
  next.train_captured(counts);
  EXPECT_GT(counts.replays, 0);
  EXPECT_THAT(next.said, testing::ElementsAre());
}

}  // namespace
}  // namespace penstock
