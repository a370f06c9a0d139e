// make_sheet() shows what a loader gives.
#include "loader/look/sheet.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "core/error.h"
#include "tests/loader/loader_test_data.h"

namespace penstock {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing_data::TestData;
using Pixels = std::vector<uint8_t>;

constexpr const char* kAugment = "affine(degrees=30),normalize";
constexpr int kStep = 14;  // a cell of 12 pixels and a gap of 2

Pixels cell_of(const Sheet& sheet, int row, int column) {
  Pixels cell;
  const int channels = sheet.extent.channels;
  for (int y = 0; y < 12; ++y) {
    const auto begin =
        sheet.pixels.begin() + ((row * kStep + y) * ptrdiff_t{sheet.extent.width} + column * kStep) * channels;
    cell.insert(cell.end(), begin, begin + 12 * channels);
  }
  return cell;
}

/// Row `row` of batch `batch` of an epoch, as a training with batches of `batch_size` gets it.
Pixels loaded(const TestData& data, int64_t epoch, int64_t batch, int64_t row, LoaderOptions options) {
  options.layout = Layout::kU8Nhwc;
  const auto dataset = Dataset::open(data.folder());
  Loader loader(dataset, Pipeline(kAugment, dataset->manifest().statistics), options);
  loader.start_epoch(epoch, batch);
  const auto found = loader.next();
  const size_t row_bytes = rendered_bytes(Layout::kU8Nhwc, found->extent());
  const auto* pixels = reinterpret_cast<const uint8_t*>(found->pixels().data()) + row * row_bytes;
  return {pixels, pixels + row_bytes};
}

Sheet sheet_of(const TestData& data, const SheetOptions& options) {
  const auto dataset = Dataset::open(data.folder());
  return make_sheet(dataset, Pipeline(kAugment, dataset->manifest().statistics), options);
}

TEST(SheetTest, CellsAreTheFirstSamplesOfAnEpochInTheLoadersOrder) {
  for (const int channels : {1, 3}) {
    const TestData data({20, 17}, {{12, 12, channels}});
    const Sheet sheet = sheet_of(data, {.rows = 2, .columns = 5, .seed = 3, .epoch = 4});
    EXPECT_EQ(sheet.extent.height, 26);
    EXPECT_EQ(sheet.extent.width, 68);
    EXPECT_EQ(sheet.extent.channels, channels);
    ASSERT_EQ(sheet.labels.size(), 10u);
    for (int i = 0; i < 10; ++i) {
      EXPECT_EQ(cell_of(sheet, i / 5, i % 5), loaded(data, 4, i / 4, i % 4, {.batch_size = 4, .seed = 3})) << i;
      EXPECT_EQ(sheet.ids[i] % 10, sheet.labels[i]);
    }
    EXPECT_EQ(sheet.pixels[size_t{12} * channels], 255);  // the gap
  }
}

TEST(SheetTest, OneSampleIsShownWithTheDrawsOfManyEpochs) {
  const TestData data({20, 17});
  const Sheet sheet = sheet_of(data, {.rows = 1, .columns = 3, .seed = 3, .epoch = 6, .sample = 25});
  EXPECT_THAT(sheet.ids, ElementsAre(1025, 1025, 1025));
  const LoaderOptions stored{.batch_size = 5, .shuffle = Shuffle::kNone, .seed = 3};
  for (int i = 0; i < 3; ++i) EXPECT_EQ(cell_of(sheet, 0, i), loaded(data, 6 + i, 5, 0, stored)) << i;
  EXPECT_NE(cell_of(sheet, 0, 0), cell_of(sheet, 0, 1));
}

TEST(SheetTest, CellsWithoutASampleAreWhite) {
  const TestData data({3});
  const Sheet sheet = sheet_of(data, {.rows = 2, .columns = 2, .shuffle = Shuffle::kNone});
  EXPECT_THAT(sheet.ids, ElementsAre(1000, 1001, 1002));
  EXPECT_EQ(cell_of(sheet, 1, 1), Pixels(144, 255));
}

TEST(SheetTest, WrongOptionsAreRefused) {
  const TestData data({3});
  const auto message = [&](const SheetOptions& options) -> std::string {
    try {
      sheet_of(data, options);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kConfig);
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message({.rows = 0}), HasSubstr("sheet: rows is 0; expected 1 to 1000"));
  EXPECT_THAT(message({.columns = 1001}), HasSubstr("sheet: columns is 1001; expected 1 to 1000"));
  EXPECT_THAT(message({.epoch = -1}), HasSubstr("sheet: epoch is -1; expected 0 or more"));
  EXPECT_THAT(message({.sample = 3}), HasSubstr("sheet: sample is 3; expected 0 to 2"));
}

}  // namespace
}  // namespace penstock
