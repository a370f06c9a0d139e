// Feeders on CUDA: pinned slots copied ahead, and batches rendered on the device, against the CPU's.
#include "train/feeder.h"

#include <gtest/gtest.h>

#include "tests/train/small_dataset.h"
#include "train/host_feeder.h"

namespace penstock {
namespace {

const std::string kAugment = "affine(degrees=20,translate=0.1,fill=30),normalize";
const torch::Device kCuda(torch::kCUDA, 0);

LoaderOptions loader_options(bool is_pinned) {
  LoaderOptions options{.workers = 2, .prefetch = 3, .batch_size = 32, .rank = 0, .world_size = 1, .seed = 3};
  if (is_pinned) options.allocator = pinned_slots();
  return options;
}

/// Every batch of three epochs, the last one from its middle on, beside the CPU's. `tolerance` 0: to the bit.
void expect_same_batches(Feeder& feeder, const std::string& augment, double tolerance) {
  const auto dataset = small_dataset();
  Recorder recorder;
  const auto host = make_host_feeder(
      std::make_unique<Loader>(dataset, Pipeline(augment, dataset->manifest().statistics), loader_options(false)),
      torch::kCPU, recorder);
  for (const auto& [epoch, first_batch] : {std::pair{0, 0}, {1, 0}, {5, 2}}) {
    host->start_epoch(epoch, first_batch);
    feeder.start_epoch(epoch, first_batch);
    while (const auto expected = host->next()) {
      const auto batch = feeder.next();
      ASSERT_TRUE(batch);
      EXPECT_TRUE(batch->images.is_cuda());
      EXPECT_TRUE(torch::equal(batch->labels.cpu(), expected->labels));
      EXPECT_TRUE(torch::equal(batch->weights.cpu(), expected->weights));
      const auto count = expected->count;
      EXPECT_LE((batch->images.cpu() - expected->images).narrow(0, 0, count).abs().max().item<double>(), tolerance);
    }
    EXPECT_FALSE(feeder.next());
  }
}

TEST(CudaFeederTest, CopiedBatchesAreTheHostsToTheBit) {
  const auto dataset = small_dataset();
  Recorder recorder;
  const auto feeder = make_host_feeder(
      std::make_unique<Loader>(dataset, Pipeline(kAugment, dataset->manifest().statistics), loader_options(true)),
      kCuda, recorder);
  expect_same_batches(*feeder, kAugment, 0);
}

TEST(CudaFeederTest, BatchesRenderedOnTheDeviceAreTheHostsToRounding) {
  const auto dataset = small_dataset();
  Recorder recorder;
  const auto feeder = make_resident_feeder(dataset, Pipeline(kAugment, dataset->manifest().statistics),
                                           loader_options(false), kCuda, recorder);
  expect_same_batches(*feeder, kAugment, 1e-5);
}

TEST(CudaFeederTest, BytesAreNormalisedOnTheDevice) {
  const std::string augment = "shift(pad=2),normalize";
  const auto dataset = small_dataset();
  const Pipeline pipeline(augment, dataset->manifest().statistics);
  auto options = loader_options(true);
  options.layout = Layout::kU8Nhwc;
  Recorder recorder;
  const auto feeder =
      make_host_feeder(std::make_unique<Loader>(dataset, pipeline, options), kCuda, recorder, pipeline.normalization());
  expect_same_batches(*feeder, augment, 1e-6);
}

}  // namespace
}  // namespace penstock
