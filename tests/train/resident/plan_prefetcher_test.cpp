// PlanPrefetcher: batches whose plans were made ahead are those of a loader, wherever an epoch begins.
#include "train/resident/plan_prefetcher.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <tuple>
#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "tests/train/resident_batches.h"
#include "tests/train/small_dataset.h"
#include "train/feed/feeder.h"
#include "train/resident/resident_feeder.h"

namespace penstock {
namespace {

LoaderOptions ahead_options(int workers = 1) {
  return {.workers = workers, .prefetch = 2, .batch_size = 32, .rank = 0, .world_size = 1, .seed = 7, .epoch_count = 6};
}

TEST(PlanPrefetcherTest, BatchesMadeLaterAreThoseOfALoader) {
  const Pipeline pipeline("affine(degrees=10),flip,normalize,erase(p=0.3)", small_dataset()->manifest().statistics);
  for (const auto& [rank, world_size, shuffle] :
       {std::tuple{0, 1, Shuffle::kGlobal}, {2, 3, Shuffle::kGlobal}, {1, 3, Shuffle::kRankLocal}}) {
    auto options = ahead_options();
    options.rank = rank, options.world_size = world_size, options.shuffle = shuffle;
    Recorder recorder;
    const auto plain =
        make_host_feeder(std::make_unique<Loader>(small_dataset(), pipeline, options), torch::kCPU, recorder);
    const auto later = make_resident_feeder(small_dataset(), pipeline, options, torch::kCPU, recorder);
    ASSERT_TRUE(later->defer_rendering());
    for (const auto& [epoch, first_batch] : {std::pair{0, 0}, {1, 0}, {4, 2}, {5, 0}, {5, 0}}) {
      plain->start_epoch(epoch, first_batch);
      later->start_epoch(epoch, first_batch);
      while (const auto expected = plain->next()) {
        auto batch = later->next();
        ASSERT_TRUE(batch);
        EXPECT_FALSE(batch->images.defined());
        later->make(*batch);
        EXPECT_EQ(batch->epoch, epoch);
        expect_same_samples(*batch, *expected);
        EXPECT_TRUE(torch::equal(batch->images, expected->images));
      }
      EXPECT_FALSE(later->next());
    }
  }
}

/// Five batches in an epoch. The bytes of each are its epoch and its number.
constexpr int64_t kBatches = 5, kBytes = 2 * sizeof(int64_t);

PlannedBatch numbered(int64_t epoch, int64_t index, std::byte* to) {
  const int64_t numbers[] = {epoch, index};
  std::memcpy(to, numbers, kBytes);
  PlannedBatch planned;
  planned.batch.epoch = epoch, planned.batch.index = index;
  planned.needs.group_count = static_cast<uint64_t>(index);
  return planned;
}

/// "epoch.index" of the batches from there to the end of the next epoch.
std::vector<std::string> batches_from(int64_t epoch, int64_t first_batch, int64_t window_batches) {
  PlanPrefetcher ahead({.batches_per_epoch = kBatches, .batch_bytes = kBytes, .window_bytes = window_batches * kBytes},
                       numbered, torch::kCPU);
  std::vector<std::string> found;
  for (int64_t number : {epoch, epoch + 1}) {
    ahead.start_epoch(number, number == epoch ? first_batch : 0);
    while (const auto planned = ahead.next()) {
      const auto numbers = planned->bytes.view(torch::kInt64);
      EXPECT_EQ(planned->batch.epoch, numbers[0].item<int64_t>());
      EXPECT_EQ(planned->batch.index, numbers[1].item<int64_t>());
      EXPECT_EQ(planned->needs.group_count, static_cast<uint64_t>(planned->batch.index));
      found.push_back(concat(planned->batch.epoch, ".", planned->batch.index));
    }
  }
  return found;
}

TEST(PlanPrefetcherTest, WindowsOfAnyLengthGiveTheSameOrder) {
  const std::vector<std::string> expected{"2.1", "2.2", "2.3", "2.4", "3.0", "3.1", "3.2", "3.3", "3.4"};
  for (const int64_t count : {1, 2, 3, 100}) EXPECT_EQ(batches_from(2, 1, count), expected) << count;
}

/// The number of batches of each epoch that are planned when `taken` batches of epoch 0 have been asked for.
std::vector<int64_t> planned_counts(const PlanPrefetcher::Shape& shape, int64_t taken) {
  std::vector<int64_t> counts(3);
  {
    PlanPrefetcher ahead(
        shape,
        [&](int64_t epoch, int64_t index, std::byte* to) { return ++counts.at(epoch), numbered(epoch, index, to); },
        torch::kCPU);
    ahead.start_epoch(0, 0);
    for (int64_t i = 0; i < taken; ++i) EXPECT_TRUE(ahead.next());
  }  // its thread has ended here
  return counts;
}

TEST(PlanPrefetcherTest, EachStretchIsTwiceAsLongUpToItsBound) {
  PlanPrefetcher::Shape shape{.batches_per_epoch = 100, .batch_bytes = kBytes};
  const auto of_first_epoch = [&](int64_t taken) { return planned_counts(shape, taken)[0]; };
  EXPECT_EQ(of_first_epoch(0), 4);
  EXPECT_EQ(of_first_epoch(1), 4 + 8);
  EXPECT_EQ(of_first_epoch(5), 4 + 8 + 16);
  EXPECT_EQ(of_first_epoch(13), 4 + 8 + 16 + 32);
  shape.window_bytes = 6 * kBytes;
  EXPECT_EQ(of_first_epoch(5), 4 + 6 + 6);
  EXPECT_EQ(of_first_epoch(11), 4 + 6 + 6 + 6);
}

TEST(PlanPrefetcherTest, NothingIsPlannedAfterTheLastEpoch) {
  PlanPrefetcher::Shape shape{.batches_per_epoch = kBatches, .batch_bytes = kBytes, .epoch_count = 1};
  EXPECT_EQ(planned_counts(shape, kBatches), (std::vector<int64_t>{5, 0, 0}));
  shape.epoch_count = 2;
  EXPECT_EQ(planned_counts(shape, kBatches), (std::vector<int64_t>{5, 5, 0}));
  shape.epoch_count = -1;
  EXPECT_EQ(planned_counts(shape, kBatches), (std::vector<int64_t>{5, 5, 0}));
}

TEST(PlanPrefetcherTest, AnErrorComesWithTheStretchThatItIsOf) {
  const auto plan = [](int64_t epoch, int64_t index, std::byte* to) {
    if (index == 2) throw io_error("the disk is gone; expected it");
    return numbered(epoch, index, to);
  };
  PlanPrefetcher ahead({.batches_per_epoch = kBatches, .batch_bytes = kBytes, .window_bytes = 1}, plan, torch::kCPU);
  ahead.start_epoch(0, 0);
  EXPECT_TRUE(ahead.next());
  EXPECT_TRUE(ahead.next());
  EXPECT_EQ(message_of(ErrorKind::kIo, [&] { ahead.next(); }), "the disk is gone; expected it");
  ahead.start_epoch(0, 3);
  EXPECT_EQ(ahead.next()->batch.index, 3);
}

}  // namespace
}  // namespace penstock
