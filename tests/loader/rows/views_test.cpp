// Views: several pictures of one sample, each with a pipeline and random numbers of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

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

TEST(ViewsTest, MixedRowsAreRefused) {
  const TestData data({20});
  EXPECT_THAT(error_of([&] { make_loader(data, options_with({"flip"}), "mixup"); }),
              HasSubstr("has 2 views, and the transforms mixup mix rows of a batch"));
  EXPECT_THAT(error_of([&] { make_loader(data, options_with({"cutmix"}), ""); }),
              HasSubstr("views: \"cutmix\" mixes rows of a batch"));
}

}  // namespace
}  // namespace penstock
