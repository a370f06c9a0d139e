// Histogram: quantiles within 10 %, weights, and sums over workers.
#include <gtest/gtest.h>

#include "loader/rows/histogram.h"

namespace penstock::detail {
namespace {

DurationSum sum_of(const Histogram& histogram) {
  DurationSum sum;
  histogram.add_to(sum);
  return sum;
}

TEST(HistogramTest, FindsEveryDurationWithinTenPercent) {
  for (uint64_t ns = 1; ns < uint64_t{1} << 39; ns += ns / 5 + 1) {
    Histogram histogram;
    histogram.add(static_cast<int64_t>(ns));
    const double found = sum_of(histogram).quantile_ns(0.99);
    ASSERT_NEAR(found, static_cast<double>(ns), 0.0626 * static_cast<double>(ns)) << ns;
  }
}

TEST(HistogramTest, BucketsAscend) {
  for (int bucket = 1; bucket < DurationBuckets::kCount; ++bucket)
    ASSERT_GT(DurationBuckets::middle_ns(bucket), DurationBuckets::middle_ns(bucket - 1));
  EXPECT_EQ(DurationBuckets::of(~uint64_t{0}), DurationBuckets::kCount - 1);
}

TEST(HistogramTest, P99OfAHundredIsTheLargestButOne) {
  Histogram histogram;
  for (int i = 0; i < 98; ++i) histogram.add(1000);
  histogram.add(50000);
  histogram.add(9000000);
  const auto sum = sum_of(histogram);
  EXPECT_NEAR(sum.quantile_ns(0.99), 50000, 5000);
  EXPECT_NEAR(sum.quantile_ns(0.5), 1000, 100);
  EXPECT_DOUBLE_EQ(sum.mean_ns(), (98 * 1000 + 50000 + 9000000) / 100.0);
}

TEST(HistogramTest, AWeightStandsForAsManyDurations) {
  Histogram weighted, repeated;
  weighted.add(700, 17);
  for (int i = 0; i < 17; ++i) repeated.add(700);
  EXPECT_EQ(sum_of(weighted).buckets, sum_of(repeated).buckets);
  EXPECT_EQ(sum_of(weighted).mean_ns(), sum_of(repeated).mean_ns());
}

TEST(HistogramTest, AddsUpOverWorkersAndIsZeroWhenEmpty) {
  Histogram one, two;
  EXPECT_EQ(sum_of(one).quantile_ns(0.99), 0);
  EXPECT_EQ(sum_of(one).mean_ns(), 0);
  one.add(100);
  two.add(300);
  DurationSum sum;
  one.add_to(sum);
  two.add_to(sum);
  EXPECT_EQ(sum.weight, 2U);
  EXPECT_EQ(sum.mean_ns(), 200);
}

}  // namespace
}  // namespace penstock::detail
