// Feeders on CUDA: batches copied ahead from pinned slots, and batches rendered on the device, compared with the CPU.
#include "train/feed/feeder.h"

#include <gtest/gtest.h>

#include "core/text.h"
#include "tests/cuda/device.h"
#include "tests/support/test_columns.h"
#include "tests/train/small_dataset.h"
#include "train/feed/host_feeder.h"
#include "train/resident/resident_feeder.h"

namespace penstock {
namespace {

const std::string kFeederAugment = "affine(degrees=20,translate=0.1,fill=30),normalize";
const std::string kColumns = "map,mean";

LoaderOptions loader_options(bool is_pinned) {
  LoaderOptions options{.workers = 2, .prefetch = 3, .batch_size = 32, .rank = 0, .world_size = 1, .seed = 3};
  if (is_pinned) options.allocator = pinned_slots();
  return options;
}

/// Work for the device after a step: 4 products of about 0.4 ms each on an H200. The host is then several batches ahead
/// of the device, and a copy or a slot that does not wait for the device overwrites what has not been read yet.
void delay_device() {
  static const auto factor = torch::rand({2048, 2048}, torch::device(kGpu));
  static auto product = torch::empty_like(factor);
  for (int i = 0; i < 4; ++i) torch::mm_out(product, factor, factor);
}

/// A copy of a batch that the device makes when it comes to it. The host does not wait for the device here.
DeviceBatch read_later(DeviceBatch batch) {
  batch.images = batch.images.clone();
  batch.labels = batch.labels.clone();
  batch.weights = batch.weights.clone();
  for (auto& [name, column] : batch.columns) column = column.clone();
  return batch;
}

std::vector<DeviceBatch> epoch_of(Feeder& feeder, int64_t epoch, int64_t first_batch, bool is_delayed) {
  std::vector<DeviceBatch> batches;
  feeder.start_epoch(epoch, first_batch);
  while (const auto batch = feeder.next()) {
    if (is_delayed) delay_device();
    batches.push_back(read_later(*batch));
  }
  return batches;
}

/// Compares every batch of three epochs, of the last one only the second half, with that of the CPU; `tolerance` 0
/// means to the bit. It does so with a device that is late (a copy must not overtake it) and with one that is idle (it
/// must not overtake a copy).
void expect_same_batches(Feeder& feeder, const std::string& augment, double tolerance) {
  const auto dataset = small_dataset();
  Recorder recorder;
  auto options = loader_options(false);
  options.columns = kColumns;
  const auto host =
      make_host_feeder(std::make_unique<Loader>(dataset, Pipeline(augment, dataset->manifest().statistics), options),
                       torch::kCPU, recorder);
  for (const bool is_delayed : {true, false}) {
    for (const auto& [epoch, first_batch] : {std::pair{0, 0}, {1, 0}, {5, 2}}) {
      const auto expected = epoch_of(*host, epoch, first_batch, false);
      const auto batches = epoch_of(feeder, epoch, first_batch, is_delayed);
      ASSERT_EQ(batches.size(), expected.size());
      for (size_t i = 0; i < batches.size(); ++i) {
        SCOPED_TRACE(concat("epoch ", epoch, ", batch ", first_batch + i, is_delayed ? ", delayed" : ""));
        EXPECT_TRUE(batches[i].images.is_cuda());
        EXPECT_TRUE(torch::equal(batches[i].labels.cpu(), expected[i].labels));
        EXPECT_TRUE(torch::equal(batches[i].weights.cpu(), expected[i].weights));
        for (const auto& [name, column] : batches[i].columns)
          EXPECT_TRUE(column.is_cuda() && torch::equal(column.cpu(), expected[i].columns.at(name))) << name;
        const auto difference = (batches[i].images.cpu() - expected[i].images).narrow(0, 0, expected[i].count);
        EXPECT_LE(difference.abs().max().item<double>(), tolerance);
      }
    }
  }
}

TEST(CudaFeederTest, CopiedBatchesAreTheHostsToTheBit) {
  const auto dataset = small_dataset();
  Recorder recorder;
  auto options = loader_options(true);
  options.columns = kColumns;
  const auto feeder = make_host_feeder(
      std::make_unique<Loader>(dataset, Pipeline(kFeederAugment, dataset->manifest().statistics), options), kGpu,
      recorder);
  feeder->start_epoch(0, 0);
  EXPECT_EQ(feeder->next()->columns.size(), 2u);
  expect_same_batches(*feeder, kFeederAugment, 0);
}

TEST(CudaFeederTest, BatchesRenderedOnTheDeviceAreTheHostsToTheBit) {
  const auto dataset = small_dataset();
  Recorder recorder;
  const auto feeder = make_resident_feeder(dataset, Pipeline(kFeederAugment, dataset->manifest().statistics),
                                           loader_options(false), kGpu, recorder);
  expect_same_batches(*feeder, kFeederAugment, 0);
}

/// 87 of 130 pictures stay there; the rows of the others are made by the loader.
TEST(CudaFeederTest, PicturesThatDoNotFitAreRenderedAsTheOthers) {
  const auto dataset = small_dataset();
  Recorder recorder;
  const auto feeder = make_resident_feeder(dataset, Pipeline(kFeederAugment, dataset->manifest().statistics),
                                           loader_options(false), kGpu, recorder, {.free_bytes = 40'000});
  expect_same_batches(*feeder, kFeederAugment, 0);
}

TEST(CudaFeederTest, BytesAreNormalisedOnTheDevice) {
  const std::string augment = "shift(pad=2),normalize";
  const auto dataset = small_dataset();
  const Pipeline pipeline(augment, dataset->manifest().statistics);
  auto options = loader_options(true);
  options.layout = Layout::kU8Nhwc;
  Recorder recorder;
  const auto feeder =
      make_host_feeder(std::make_unique<Loader>(dataset, pipeline, options), kGpu, recorder, pipeline.normalization());
  expect_same_batches(*feeder, augment, 1e-6);
}

}  // namespace
}  // namespace penstock
