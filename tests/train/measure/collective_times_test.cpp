// The collective times of the last steps.
#include "train/measure/collective_times.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

constexpr auto kKept = static_cast<int64_t>(CollectiveTimes::kKeptSteps);

TEST(CollectiveTimesTest, AddsUpWhatAStepTook) {
  CollectiveTimes times;
  EXPECT_TRUE(times.before(0).empty());
  times.add(2, {.exposed = 1});
  times.add(2, {.all = 3, .after_backward = 2});
  times.add(2, {.exposed = 4});
  times.add(0, {.all = 7});  // a device is read late
  const auto steps = times.before(4);
  ASSERT_EQ(steps.size(), 4U);
  EXPECT_EQ(steps[0].all, 7);
  EXPECT_EQ(steps[1].all, 0);
  EXPECT_EQ(steps[2].exposed, 5);
  EXPECT_EQ(steps[2].all, 3);
  EXPECT_EQ(steps[2].after_backward, 2);
  EXPECT_EQ(steps[3].all, 0);
}

TEST(CollectiveTimesTest, KeepsTheLastSteps) {
  CollectiveTimes times;
  for (int64_t step = 0; step <= kKept + 10; ++step) times.add(step, {.all = static_cast<float>(step)});
  times.add(3, {.all = 100});  // no longer kept
  const auto steps = times.before(kKept + 10);
  ASSERT_EQ(steps.size(), static_cast<size_t>(kKept));
  EXPECT_EQ(steps.front().all, 10);
  EXPECT_EQ(steps.back().all, kKept + 9);
}

}  // namespace
}  // namespace penstock
