// Columns: where they lie in a batch, and that those of makers arrive with every batch, whoever made it.
#include "loader/rows/column.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "loader/batch/digest.h"
#include "loader/rows/batch_format.h"
#include "tests/loader/loader_test_data.h"
#include "tests/support/test_columns.h"
#include "tests/support/testing.h"

namespace penstock {
namespace {

using detail::BatchFormat;
using testing::ElementsAre;
using testing::HasSubstr;
using testing_data::consume;
using testing_data::make_loader;
using testing_data::TestData;

constexpr const char* kAugment = "affine(degrees=20,translate=0.2)";

template <class T>
T number_in(const Batch& batch, size_t column, int64_t row) {
  T value{};
  std::memcpy(&value, batch.column(column).data() + static_cast<size_t>(row) * sizeof value, sizeof value);
  return value;
}

std::span<const std::byte> row_pixels(const Batch& batch, int64_t row) {
  const size_t row_bytes = batch.columns()[Column::kImages].row_bytes();
  return batch.pixels().subspan(static_cast<size_t>(row) * row_bytes, row_bytes);
}

Digest digest_with(const TestData& data, const LoaderOptions& options) {
  auto loader = make_loader(data, options, kAugment);
  loader.start_epoch(0);
  Digest digest;
  consume(loader, [&](const Batch& batch) { digest.add(batch); });
  return digest;
}

TEST(BatchFormatTest, PixelsTakeWholeLinesAndNumbersFollowByTheirSize) {
  const BatchFormat plain(3, {2, 5, 3}, Layout::kU8Nhwc, false, {});  // 90 bytes of pixels
  EXPECT_THAT(plain.offsets, ElementsAre(0, 128, 128 + 24, 128 + 48));
  EXPECT_EQ(plain.indices_offset, 128 + 64);
  EXPECT_EQ(plain.block_bytes, 128 + 128);
  const BatchFormat mixed(3, {2, 5, 3}, Layout::kU8Nhwc, true, {});
  EXPECT_THAT(mixed.offsets, ElementsAre(0, 128, 128 + 24, 128 + 72, 128 + 48, 128 + 84));
  EXPECT_EQ(mixed.block_bytes, 128 + 128);
  const BatchFormat made(3, {2, 5, 3}, Layout::kU8Nhwc, false,
                         {{"a", Dtype::kF32}, {"b", Dtype::kF16, {7}}, {"c", Dtype::kI64}, {"d", Dtype::kU8}});
  EXPECT_THAT(made.offsets, ElementsAre(0, 192, 192 + 24, 192 + 72, 192 + 84, 128, 192 + 48, 192 + 96));
  EXPECT_EQ(made.indices_offset, 192 + 104);
  EXPECT_EQ(made.block_bytes, 192 + 128);
}

TEST(BatchFormatTest, ImagesHaveTheDimensionsOfTheirLayout) {
  const auto shape_of = [](Layout layout) { return BatchFormat(1, {2, 5, 3}, layout, false, {}).columns[0].shape; };
  EXPECT_THAT(shape_of(Layout::kBf16Nchw), ElementsAre(3, 2, 5));
  EXPECT_THAT(shape_of(Layout::kBf16Nhwc), ElementsAre(2, 5, 3));
}

TEST(ColumnTest, AMakersColumnIsThatOfEveryRow) {
  const TestData data({20, 23});
  const auto dataset = data.open();
  const auto pipeline = testing_data::pipeline_for(*dataset, kAugment);
  for (const int workers : {0, 2})
    for (const bool gives_away : {false, true}) {
      auto loader = make_loader(data,
                                {.workers = workers,
                                 .prefetch = 2,
                                 .batch_size = 8,
                                 .seed = 3,
                                 .columns = "map,mean(times=2)",
                                 .gives_batches_away = gives_away},
                                kAugment);
      std::set<MapColumn::Map> maps;
      for (int64_t epoch = 0; epoch < 3; ++epoch) {
        loader.start_epoch(epoch);
        consume(loader, [&](const Batch& batch) {
          const size_t map = batch.column_number("map"), mean = batch.column_number("mean");
          ASSERT_EQ(batch.column(map).size(), 8 * 6 * sizeof(int64_t));
          for (int64_t row = 0; row < batch.rows(); ++row) {
            const uint64_t id = batch.ids()[static_cast<size_t>(row)];
            const auto plan = pipeline.plan(12, 12, 3, static_cast<uint32_t>(epoch), id);
            const bool is_padding = row >= batch.count();
            const auto own = is_padding ? MapColumn::Map{} : MapColumn::map_of(plan);
            ASSERT_EQ(number_in<MapColumn::Map>(batch, map, row), own);
            ASSERT_EQ(number_in<float>(batch, mean, row),
                      static_cast<float>(2 * MeanColumn::mean_of(row_pixels(batch, row))));
            maps.insert(own);
          }
        });
      }
      EXPECT_EQ(maps.size(), 3u * 43 + 1);
    }
}

TEST(ColumnTest, TheDigestHasItAndIsTheSameForWorkersAndRanks) {
  const TestData data({20, 23});
  const LoaderOptions options{.batch_size = 8, .columns = "mean,map"};
  const Digest digest = digest_with(data, options);
  auto other = options;
  other.columns = "";
  EXPECT_NE(digest_with(data, other), digest);
  other.columns = "mean(times=2),map";
  EXPECT_NE(digest_with(data, other), digest);
  other = options;
  other.workers = 2;
  EXPECT_EQ(digest_with(data, other), digest);
  other.world_size = 3;
  Digest sum;
  for (other.rank = 0; other.rank < 3; ++other.rank) sum.add(digest_with(data, other));
  EXPECT_EQ(sum, digest);
}

TEST(ColumnTest, ItComesAfterThoseOfAMixAndSeesMixedPixels) {
  const TestData data({16});
  auto loader = make_loader(data, {.batch_size = 16, .columns = "mean"}, "mixup(alpha=1)");
  loader.start_epoch(0);
  const auto batch = loader.next();
  ASSERT_EQ(batch->column_number("mean"), 6u);
  EXPECT_EQ(batch->columns()[Column::kSecondLabels].name, "second_labels");
  EXPECT_LT(batch->mix_weights()[0], 1);
  for (int64_t row = 0; row < 16; ++row)
    EXPECT_EQ(number_in<float>(*batch, 6, row), static_cast<float>(MeanColumn::mean_of(row_pixels(*batch, row))));
}

TEST(ColumnTest, ASubstitutedRowIsZero) {
  const TestData data({20});
  data.corrupt(7);
  auto loader = make_loader(data, {.batch_size = 20, .on_corrupt = OnCorrupt::kMask, .columns = "map"});
  for (int64_t epoch = 0; epoch < 4; ++epoch) {  // in slots that were used before
    loader.start_epoch(epoch);
    consume(loader, [](const Batch& batch) {
      for (int64_t row = 0; row < 20; ++row)
        EXPECT_EQ(number_in<MapColumn::Map>(batch, 4, row) == MapColumn::Map{}, batch.ids()[row] == 1007);
    });
  }
}

TEST(ColumnTest, WhatCannotBeIsRefusedInALine) {
  const TestData data({20});
  const auto refused = [&](const LoaderOptions& options) {
    return message_of(ErrorKind::kConfig, [&] { make_loader(data, options); });
  };
  EXPECT_EQ(refused({.columns = "mean,map,mean(times=2)"}), "columns: two are named mean; expected each name once");
  EXPECT_THAT(refused({.columns = "meen"}), HasSubstr("unknown column \"meen\""));
  EXPECT_THAT(refused({.columns = "mean(time=2)"}), HasSubstr("unknown key \"time\""));
  EXPECT_THAT(message_of(ErrorKind::kBug,
                         [&] { make_loader(data, {.columns = "map", .leaves_out = [](uint64_t) { return false; }}); }),
              HasSubstr("has the columns map"));
  auto loader = make_loader(data, {.columns = "mean"});
  loader.start_epoch(0);
  EXPECT_THAT(message_of(ErrorKind::kConfig, [&] { static_cast<void>(loader.next()->column_number("map")); }),
              HasSubstr("known: images, labels, ids, weights, mean"));
}

}  // namespace
}  // namespace penstock
