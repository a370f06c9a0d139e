// Sizes by epoch: which pictures each epoch has, in memory for the largest, and that nothing else changes them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "loader/batch/digest.h"
#include "loader/batch/loader.h"
#include "tests/loader/loader_test_data.h"
#include "tests/loader/storage_test_data.h"

namespace penstock {
namespace {

using testing::HasSubstr;
using testing_data::error_of;
using testing_data::make_loader;
using testing_data::TestData;

constexpr const char* kCropped = "random-resized-crop(size=8),flip";

LoaderOptions with_schedule(const std::string& schedule, int workers = 0) {
  LoaderOptions options;
  options.batch_size = 7;
  options.workers = workers;
  options.seed = 5;
  options.size_schedule = schedule;
  return options;
}

std::string digest_of_epoch(const TestData& data, const LoaderOptions& options, const char* augment, int64_t epoch,
                            int64_t first_batch = 0) {
  auto loader = make_loader(data, options, augment);
  loader.start_epoch(epoch, first_batch);
  Digest digest;
  while (const auto batch = loader.next()) digest.add(*batch);
  return digest.hex();
}

TEST(LoaderSizesTest, EveryEpochIsThatOfALoaderOfItsSize) {
  const TestData data({20, 13});
  auto loader = make_loader(data, with_schedule("0:4,1:8,3:6", 2), kCropped);
  const std::map<int64_t, std::string> lists{
      {0, "random-resized-crop(size=4),flip"}, {1, kCropped}, {2, kCropped}, {3, "random-resized-crop(size=6),flip"}};
  for (const auto& [epoch, list] : lists) {  // one loader through all of them, whose workers are an epoch ahead
    loader.start_epoch(epoch);
    Digest digest;
    while (const auto batch = loader.next()) {
      const int64_t size = loader.pipeline(epoch).plan(12, 12, 0, 0, 0).output_height;
      EXPECT_EQ(batch->columns()[Column::kImages].shape, (std::vector<int64_t>{1, size, size}));
      EXPECT_EQ(batch->pixels().size(), static_cast<size_t>(7 * size * size) * sizeof(float));
      digest.add(*batch);
    }
    EXPECT_EQ(digest.hex(), digest_of_epoch(data, with_schedule(""), list.c_str(), epoch)) << epoch;
  }
}

TEST(LoaderSizesTest, OneListInOneSizeHasItsOldDigest) {
  const TestData data({20, 13});
  EXPECT_EQ(digest_of_epoch(data, with_schedule("0:8"), kCropped, 4),
            digest_of_epoch(data, with_schedule(""), kCropped, 4));
}

TEST(LoaderSizesTest, ABeginInTheMiddleHasTheSizeOfItsEpoch) {
  const TestData data({20, 13});
  EXPECT_EQ(digest_of_epoch(data, with_schedule("0:4,2:8", 2), kCropped, 3, 2),
            digest_of_epoch(data, with_schedule(""), kCropped, 3, 2));
}

TEST(LoaderSizesTest, SlotsHaveTheMemoryOfTheLargestFromTheBeginning) {
  const TestData data({20, 13});
  for (const bool gives_away : {false, true}) {
    auto options = with_schedule("0:4,1:16,2:6", 1);
    options.gives_batches_away = gives_away;
    auto loader = make_loader(data, options, kCropped);
    auto large = make_loader(data, with_schedule("", 1), "random-resized-crop(size=16),flip");
    EXPECT_EQ(loader.extent().height, 16);
    if (!gives_away) {
      EXPECT_EQ(loader.slot_bytes(), large.slot_bytes());
    }
    std::vector<Batch> held;
    for (int64_t epoch = 0; epoch < 3; ++epoch) {
      loader.start_epoch(epoch);
      while (auto batch = loader.next())
        if (gives_away) held.push_back(std::move(*batch));
    }
    if (gives_away) {
      EXPECT_NE(held.front().columns()[0].shape, held.back().columns()[0].shape);
    } else {
      EXPECT_EQ(loader.slot_bytes(), large.slot_bytes());
    }
  }
}

TEST(LoaderSizesTest, DoNotDependOnRanks) {
  const TestData data({20, 13});
  for (const int64_t epoch : {0, 1}) {
    const std::string whole = digest_of_epoch(data, with_schedule("0:4,1:8"), kCropped, epoch);
    Digest sum;
    for (int rank = 0; rank < 3; ++rank) {
      auto options = with_schedule("0:4,1:8");
      options.world_size = 3, options.rank = rank;
      auto loader = make_loader(data, options, kCropped);
      loader.start_epoch(epoch);
      while (const auto batch = loader.next()) sum.add(*batch);
    }
    EXPECT_EQ(sum.hex(), whole);
  }
}

TEST(LoaderSizesTest, ViewsOfTheSameSizeFollowAndOthersKeepTheirs) {
  const TestData data({20, 13});
  auto options = with_schedule("0:4,1:6", 2);
  options.views = {"random-resized-crop(size=8)", "random-resized-crop(size=5)", "flip"};
  auto loader = make_loader(data, options, kCropped);
  const auto widths_of = [&](int64_t epoch) {
    loader.start_epoch(epoch);
    const auto batch = loader.next();
    std::vector<int64_t> widths;
    for (const size_t number : {size_t{0}, size_t{4}, size_t{5}, size_t{6}})
      widths.push_back(batch->columns()[number].shape[2]);
    return widths;
  };
  EXPECT_EQ(widths_of(0), (std::vector<int64_t>{4, 4, 5, 12}));
  EXPECT_EQ(widths_of(1), (std::vector<int64_t>{6, 6, 5, 12}));
}

TEST(LoaderSizesTest, MixesAndCorruptRowsHaveTheSizeOfTheirEpoch) {
  const TestData data({40});
  data.corrupt(7);
  const std::string list = std::string(kCropped) + ",cutmix";
  auto options = with_schedule("0:4,1:8", 2);
  options.on_corrupt = OnCorrupt::kSubstitute;
  options.most_corrupt = 1;
  auto plain = with_schedule("");
  plain.on_corrupt = OnCorrupt::kSubstitute;
  plain.most_corrupt = 1;
  EXPECT_EQ(digest_of_epoch(data, options, list.c_str(), 1), digest_of_epoch(data, plain, list.c_str(), 1));
  EXPECT_NE(digest_of_epoch(data, options, list.c_str(), 0), digest_of_epoch(data, plain, list.c_str(), 0));
}

TEST(LoaderSizesTest, WhatCannotBeIsRefusedInALine) {
  const TestData data({20});
  EXPECT_THAT(error_of([&] { make_loader(data, with_schedule("6:160,0:128"), kCropped); }),
              HasSubstr("2 size schedule is \"6:160,0:128\": it begins with epoch 6"));
  EXPECT_THAT(error_of([&] { make_loader(data, with_schedule("0:8"), "flip"); }),
              HasSubstr("2 size schedule: the transforms \"flip\" set no size"));
}

}  // namespace
}  // namespace penstock
