// Views: several pictures of one sample, each with a pipeline and random numbers of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "loader/batch/digest.h"
#include "loader/batch/loader.h"
#include "loader/pack/pack.h"
#include "loader/rows/view_parts.h"
#include "tests/loader/loader_test_data.h"
#include "tests/loader/photographs.h"
#include "tests/loader/storage_test_data.h"
#include "tests/support/case_stride.h"

namespace penstock {
namespace {

using testing::HasSubstr;
using testing_data::error_of;
using testing_data::make_loader;
using testing_data::TestData;

constexpr const char* kTurned = "affine(degrees=20,translate=0.2)";

LoaderOptions options_with(const std::vector<std::string>& views, int workers = 2) {
  LoaderOptions options;
  options.batch_size = 7;
  options.workers = workers;
  options.views = views;
  return options;
}

std::vector<std::vector<std::byte>> column_of(const TestData& data, const LoaderOptions& options, const char* augment,
                                              size_t number) {
  auto loader = make_loader(data, options, augment);
  loader.start_epoch(3);
  std::vector<std::vector<std::byte>> batches;
  while (const auto batch = loader.next())
    batches.emplace_back(batch->column(number).begin(), batch->column(number).end());
  return batches;
}

TEST(ViewsTest, AViewHasItsOwnTransformsSizeAndRandomNumbers) {
  const TestData data({20, 13});
  const auto options = options_with({"", std::string(kTurned) + ",resize(height=6,width=5)", kTurned});
  auto loader = make_loader(data, options, kTurned);
  loader.start_epoch(3);
  const auto batch = loader.next();
  ASSERT_EQ(batch->columns().size(), 7u);
  EXPECT_EQ(batch->columns()[4].name, "view1");
  EXPECT_EQ(batch->columns()[5].shape, (std::vector<int64_t>{1, 6, 5}));
  // A view without random numbers is what a loader with these transforms gives, and images are as without views.
  EXPECT_EQ(column_of(data, options, kTurned, 4), column_of(data, options_with({}), "", Column::kImages));
  EXPECT_EQ(column_of(data, options, kTurned, 0), column_of(data, options_with({}), kTurned, Column::kImages));
  EXPECT_NE(column_of(data, options, kTurned, 6), column_of(data, options, kTurned, 0));
}

TEST(ViewsTest, AreInTheDigestWhichWorkersDoNotChange) {
  const TestData data({20, 13});
  const auto digest_of = [&](const std::vector<std::string>& views, int workers) {
    auto loader = make_loader(data, options_with(views, workers), kTurned);
    loader.start_epoch(0);
    Digest digest;
    while (const auto batch = loader.next()) digest.add(*batch);
    return digest.hex();
  };
  EXPECT_EQ(digest_of({kTurned}, 0), digest_of({kTurned}, 3));
  EXPECT_NE(digest_of({kTurned}, 0), digest_of({}, 0));
  EXPECT_NE(digest_of({kTurned}, 0), digest_of({"flip"}, 0));
}

/// How the fields of ViewPart come out, as "leader:x,y,width,height".
std::string shared(std::vector<detail::ViewPart> parts, bool costs_what_is_above) {
  detail::share_regions(parts, costs_what_is_above);
  std::string text;
  for (const auto& [plan, scaled, scale, region, leader, output] : parts)
    text += concat(leader, ":", region.x, ",", region.y, ",", region.width, ",", region.height, " ");
  return text;
}

detail::ViewPart part_of(const Region& region, int scale = 8) {
  detail::ViewPart part;
  part.region = region, part.dct_scale = scale;
  return part;
}

TEST(ViewPartsTest, PartsShareAHullThatIsNoLargerThanTheyAre) {
  EXPECT_EQ(shared({part_of({0, 0, 10, 10}), part_of({2, 3, 10, 10})}, false), "0:0,0,12,13 0:2,3,10,10 ");
  EXPECT_EQ(shared({part_of({0, 0, 10, 10}), part_of({50, 0, 10, 10})}, false), "0:0,0,10,10 1:50,0,10,10 ");
  EXPECT_EQ(shared({part_of({0, 0, 10, 10}), part_of({50, 0, 10, 10})}, true), "0:0,0,60,10 0:50,0,10,10 ");
  EXPECT_EQ(shared({part_of({0, 0, 10, 10}), part_of({0, 0, 5, 5}, 4), part_of({1, 1, 4, 4}, 4)}, false),
            "0:0,0,10,10 1:0,0,5,5 1:1,1,4,4 ");
  EXPECT_EQ(shared({part_of({0, 0, 9, 9}), part_of({50, 0, 9, 9}), part_of({51, 1, 9, 9})}, false),
            "0:0,0,9,9 1:50,0,10,10 1:51,1,9,9 ");
  EXPECT_EQ(shared({part_of({}), part_of({3, 4, 5, 6})}, false), "0:3,4,5,6 0:3,4,5,6 ");
}

/// Views are decoded together, each as if it were alone: a view that draws nothing is compared, because the random
/// numbers of others are their own.
TEST(ViewsTest, PhotographsThatAreDecodedOnceHaveTheSamePixels) {
  const auto photographs = testing_data::photographs(20 * kCaseStride);
  if (photographs.empty()) GTEST_SKIP() << testing_data::no_photographs();
  const testing_data::TemporaryFolder folder;
  for (const auto& path : photographs) {
    std::filesystem::create_directories(folder / "in/a");
    std::filesystem::copy_file(path, folder / "in/a" / path.filename());
  }
  const std::vector<std::string> lists{"center-crop(size=200)", "resize(height=64,width=64)",
                                       "center-crop(size=96),vflip(p=1)", "resize(size=300),center-crop(size=224)",
                                       "rotate(degrees=40:40),center-crop(size=50)"};
  for (const Encode encode : {Encode::kCoefficients, Encode::kAuto, Encode::kKeep, Encode::kRaw}) {
    pack({.source = "image-folder",
          .input = folder / "in",
          .output = folder / encode_name(encode),
          .storage = {.encode = encode}});
    const auto dataset = Dataset::open(folder / encode_name(encode));
    const auto pixels_of = [&](const std::string& list, const std::vector<std::string>& views, size_t number) {
      LoaderOptions options;
      options.batch_size = 4, options.shuffle = Shuffle::kNone, options.views = views;
      options.dct_scale = DctScale::kAlways;
      Loader loader(dataset, Pipeline(list, dataset->manifest().statistics), options);
      loader.start_epoch(0);
      std::vector<std::vector<std::byte>> batches;
      while (const auto batch = loader.next())
        batches.emplace_back(batch->column(number).begin(), batch->column(number).end());
      return batches;
    };
    const std::vector<std::string> further(lists.begin() + 1, lists.end());
    for (size_t view = 0; view < lists.size(); ++view)
      EXPECT_EQ(pixels_of(lists[0], further, view == 0 ? size_t{0} : 3 + view), pixels_of(lists[view], {}, 0))
          << encode_name(encode) << ", " << lists[view];
  }
}

TEST(ViewsTest, StageTimesCountEveryRowOnce) {
  const TestData data({40}, {{64, 64, 3}});
  auto loader = make_loader(data, options_with({kTurned, "resize(size=32)"}, 0), kTurned);
  loader.start_epoch(0);
  while (loader.next()) continue;
  const auto statistics = loader.statistics();
  EXPECT_EQ(statistics.render.count, 40u);
  EXPECT_GT(statistics.render.total_ms, 0);
  EXPECT_GT(statistics.plan.total_ms, 0);
}

TEST(ViewsTest, MixedRowsAreRefused) {
  const TestData data({20});
  EXPECT_THAT(error_of([&] { make_loader(data, options_with({"flip"}), "mixup"); }),
              HasSubstr("has 2 views, and the transforms mixup mix rows of a batch"));
  EXPECT_THAT(error_of([&] { make_loader(data, options_with({"cutmix"}), ""); }),
              HasSubstr("views: \"cutmix\" mixes rows of a batch"));
}

}  // namespace
}  // namespace penstock
