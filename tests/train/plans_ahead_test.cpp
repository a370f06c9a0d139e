// PlansAhead: batches whose plans were made ahead are those that are planned one by one, wherever an epoch begins.
#include "train/plans_ahead.h"

#include <gtest/gtest.h>

#include <tuple>
#include <utility>

#include "core/error.h"
#include "tests/train/resident_batches.h"
#include "tests/train/small_dataset.h"
#include "train/feeder.h"

namespace penstock {
namespace {

LoaderOptions ahead_options(int workers = 1) {
  return {.workers = workers, .prefetch = 2, .batch_size = 32, .rank = 0, .world_size = 1, .seed = 7, .epoch_count = 6};
}

TEST(PlansAheadTest, BatchesMadeLaterAreThoseMadeOneByOne) {
  const Pipeline pipeline("affine(degrees=10),flip,normalize,erase(p=0.3)", small_dataset()->manifest().statistics);
  for (const auto& [rank, world_size, shuffle] :
       {std::tuple{0, 1, Shuffle::kGlobal}, {2, 3, Shuffle::kGlobal}, {1, 3, Shuffle::kRankLocal}}) {
    auto options = ahead_options();
    options.rank = rank, options.world_size = world_size, options.shuffle = shuffle;
    Recorder recorder;
    const auto plain = make_resident_feeder(small_dataset(), pipeline, options, torch::kCPU, recorder);
    const auto later = make_resident_feeder(small_dataset(), pipeline, options, torch::kCPU, recorder);
    ASSERT_TRUE(later->leave_making());
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

/// The ids that come, where a stretch has room for `rows` plans.
std::vector<int64_t> pictures_of(int64_t rows, int64_t epoch, int64_t first_batch) {
  Loader ids(small_dataset(), Pipeline("center-crop(size=1)", small_dataset()->manifest().statistics), ahead_options());
  const auto plan = [](const Batch& batch, std::vector<PlannedRow>& planned) {
    planned.resize(static_cast<size_t>(batch.count()));
    for (size_t i = 0; i < planned.size(); ++i)
      planned[i] = {static_cast<int64_t>(batch.ids()[i]), batch.labels()[i], 1, Plan::identity(20, 20)};
  };
  PlansAhead ahead(ids, plan, 1, torch::kCPU, rows * make_room_for_plans(1, 1, torch::kCPU).rows.nbytes());
  std::vector<int64_t> pictures;
  for (int64_t number : {epoch, epoch + 1}) {
    ahead.start_epoch(number, number == epoch ? first_batch : 0);
    while (const auto planned = ahead.next()) {
      EXPECT_EQ(planned->plans.rows.size(0), planned->batch.count);
      const auto column = planned->plans.rows.select(1, 0);
      for (int64_t i = 0; i < column.numel(); ++i) pictures.push_back(static_cast<int64_t>(column[i].item<double>()));
    }
  }
  return pictures;
}

TEST(PlansAheadTest, StretchesOfAnyLengthGiveTheSameOrder) {
  const auto expected = pictures_of(1000, 2, 1);
  ASSERT_EQ(expected.size(), 130 - 32 + 130u);
  for (const int64_t rows : {1, 32, 64, 100}) EXPECT_EQ(pictures_of(rows, 2, 1), expected) << rows;
}

TEST(PlansAheadTest, AnErrorComesWithTheStretchThatItIsOf) {
  Loader ids(small_dataset(), Pipeline("center-crop(size=1)", small_dataset()->manifest().statistics), ahead_options());
  const auto plan = [](const Batch& batch, std::vector<PlannedRow>& planned) {
    if (batch.index() == 2) throw io_error("the disk is gone; expected it");
    planned.assign(static_cast<size_t>(batch.count()), {.picture = 0, .label = 0, .plan = Plan::identity(20, 20)});
  };
  PlansAhead ahead(ids, plan, 1, torch::kCPU, /*stretch_bytes=*/1);
  ahead.start_epoch(0, 0);
  EXPECT_TRUE(ahead.next());
  EXPECT_TRUE(ahead.next());
  EXPECT_EQ(message_of(ErrorKind::kIo, [&] { ahead.next(); }), "the disk is gone; expected it");
  ahead.start_epoch(0, 3);
  EXPECT_EQ(ahead.next()->batch.index, 3);
}

}  // namespace
}  // namespace penstock
