// Host feeder: its batches are those of the loader, in place.
#include "train/feed/feeder.h"

#include <gtest/gtest.h>

#include "tests/support/test_columns.h"
#include "tests/train/small_dataset.h"
#include "train/feed/counting_feeder.h"
#include "train/feed/host_feeder.h"

namespace penstock {
namespace {

LoaderOptions feeder_options() {
  return {.workers = 1, .prefetch = 2, .batch_size = 32, .rank = 0, .world_size = 1, .seed = 5};
}

std::unique_ptr<Loader> make_loader(const LoaderOptions& options,
                                    const std::string& augment = "affine(degrees=20),normalize") {
  return std::make_unique<Loader>(small_dataset(), Pipeline(augment, small_dataset()->manifest().statistics), options);
}

TEST(HostFeederTest, TensorsViewTheLoadersBatches) {
  Recorder recorder;
  const auto feeder = make_host_feeder(make_loader(feeder_options()), torch::kCPU, recorder);
  const auto loader = make_loader(feeder_options());
  feeder->start_epoch(1, 2);
  loader->start_epoch(1, 2);
  int batch_count = 0;
  while (const auto expected = loader->next()) {
    const auto batch = feeder->next();
    ASSERT_TRUE(batch);
    EXPECT_EQ(batch->index, expected->index());
    EXPECT_EQ(batch->count, expected->count());
    EXPECT_EQ(batch->global_count, expected->global_count());
    ASSERT_EQ(batch->images.nbytes(), expected->pixels().size());
    EXPECT_EQ(std::memcmp(batch->images.data_ptr(), expected->pixels().data(), expected->pixels().size()), 0);
    EXPECT_EQ(std::memcmp(batch->labels.data_ptr(), expected->labels().data(), expected->labels().size_bytes()), 0);
    EXPECT_EQ(std::memcmp(batch->weights.data_ptr(), expected->weights().data(), expected->weights().size_bytes()), 0);
    EXPECT_FALSE(batch->second_labels.defined() || batch->mix_weights.defined());
    ++batch_count;
  }
  EXPECT_FALSE(feeder->next());
  EXPECT_EQ(batch_count, 3);
}

TEST(CountingFeederTest, CountsAreThoseOfTheLoader) {
  for (const auto shuffle : {Shuffle::kGlobal, Shuffle::kRankLocal})
    for (const int rank : {0, 1}) {
      auto options = feeder_options();
      options.rank = rank;
      options.world_size = 2;
      options.shuffle = shuffle;
      const auto feeder = make_counting_feeder(*small_dataset(), options);
      const auto loader = make_loader(options);
      EXPECT_EQ(feeder->batches_per_epoch(), loader->batches_per_epoch());
      EXPECT_EQ(feeder->samples_per_epoch(), loader->samples_per_epoch());
      feeder->start_epoch(3, 1);
      loader->start_epoch(3, 1);
      while (const auto expected = loader->next()) {
        const auto batch = feeder->next();
        ASSERT_TRUE(batch);
        EXPECT_FALSE(batch->images.defined());
        EXPECT_EQ(batch->epoch, 3);
        EXPECT_EQ(batch->index, expected->index());
        EXPECT_EQ(batch->rows, static_cast<int64_t>(expected->labels().size()));
        EXPECT_EQ(batch->count, expected->count());
        EXPECT_EQ(batch->global_count, expected->global_count());
        EXPECT_EQ(batch->first_position, expected->first_position());
      }
      EXPECT_FALSE(feeder->next());
    }
}

TEST(HostFeederTest, MixedBatchesBringTheirSecondLabels) {
  Recorder recorder;
  const auto feeder =
      make_host_feeder(make_loader(feeder_options(), "mixup(alpha=1),normalize"), torch::kCPU, recorder);
  const auto loader = make_loader(feeder_options(), "mixup(alpha=1),normalize");
  feeder->start_epoch(0, 0);
  loader->start_epoch(0, 0);
  const auto batch = feeder->next();
  const auto expected = loader->next();
  const auto labels = expected->second_labels();
  const auto weights = expected->mix_weights();
  EXPECT_LT(weights[0], 1);
  ASSERT_EQ(batch->second_labels.nbytes(), labels.size_bytes());
  ASSERT_EQ(batch->mix_weights.nbytes(), weights.size_bytes());
  EXPECT_EQ(std::memcmp(batch->second_labels.data_ptr(), labels.data(), labels.size_bytes()), 0);
  EXPECT_EQ(std::memcmp(batch->mix_weights.data_ptr(), weights.data(), weights.size_bytes()), 0);
}

TEST(HostFeederTest, ColumnsOfMakersComeByTheirNames) {
  Recorder recorder;
  auto options = feeder_options();
  options.columns = "mean,map";
  const auto feeder = make_host_feeder(make_loader(options), torch::kCPU, recorder);
  feeder->start_epoch(0, 0);
  int64_t count = 0;
  while (const auto batch = feeder->next()) {
    ASSERT_EQ(batch->columns.size(), 2u);
    EXPECT_EQ(batch->columns.at("map").sizes(), (at::IntArrayRef{32, 2, 3}));
    EXPECT_EQ(batch->columns.at("map").scalar_type(), torch::kInt64);
    EXPECT_TRUE(torch::allclose(batch->columns.at("mean"), batch->images.mean({1, 2, 3}), 1e-5, 1e-6));
    count += batch->columns.at("map").flatten(1).any(1).sum().item<int64_t>();
  }
  EXPECT_EQ(count, 130);  // padding rows are zero
}

TEST(PinnedSlotsTest, MemoryThatCannotBeHadIsNull) {
  const auto slots = pinned_slots();
  EXPECT_EQ(slots.allocate(size_t{1} << 60), nullptr);  // more than any machine has; without CUDA any amount gives null
}

TEST(HostFeederTest, CountsAreTheLoaders) {
  Recorder recorder;
  const auto feeder = make_host_feeder(make_loader(feeder_options()), torch::kCPU, recorder);
  EXPECT_EQ(feeder->batches_per_epoch(), 5);
  EXPECT_EQ(feeder->samples_per_epoch(), 130u);
}

TEST(HostFeederTest, BytesAreNormalisedLikeTheHostsFloats) {
  // The geometry moves whole pixels, so that a byte holds each level exactly.
  const std::string augment = "shift(pad=2),normalize";
  const Pipeline pipeline(augment, small_dataset()->manifest().statistics);
  auto options = feeder_options();
  Recorder recorder;
  const auto floats = make_host_feeder(make_loader(options, augment), torch::kCPU, recorder);
  options.layout = Layout::kU8Nhwc;
  const auto bytes = make_host_feeder(make_loader(options, augment), torch::kCPU, recorder, pipeline.normalization());
  floats->start_epoch(0, 0);
  bytes->start_epoch(0, 0);
  for (int64_t index = 0; index < floats->batches_per_epoch(); ++index) {
    const auto expected = floats->next(), batch = bytes->next();
    EXPECT_TRUE(torch::equal(batch->images.narrow(0, 0, batch->count), expected->images.narrow(0, 0, batch->count)));
  }
}

TEST(HostFeederTest, TimeGoesToWaiting) {
  Recorder recorder;
  const auto feeder = make_host_feeder(make_loader(feeder_options()), torch::kCPU, recorder);
  feeder->start_epoch(0, 0);
  recorder.restart();
  while (feeder->next()) {
  }
  EXPECT_GT(recorder.times()[Phase::kWait], 0);
  EXPECT_EQ(recorder.times()[Phase::kForward], 0);
}

}  // namespace
}  // namespace penstock
