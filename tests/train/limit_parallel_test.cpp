// What limits ranks that wait for each other.
#include "train/limit_parallel.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

StepTimes rank_of(double wait, double compute, double bubble) {
  StepTimes step;
  step[Phase::kWait] = wait;
  step[Phase::kForward] = compute;
  step[Phase::kBubble] = bubble;
  return step;
}

TEST(BubbleTest, IsTheShareOfTheTimeOfAllRanks) {
  EXPECT_DOUBLE_EQ(bubble_share({rank_of(0, 8, 2), rank_of(0, 4, 6)}), 0.4);
  EXPECT_EQ(bubble_share({}), 0);
}

TEST(BubbleTest, WaitingForARankThatWaitsForItsLoaderDoesNotCount) {
  EXPECT_DOUBLE_EQ(bubble_share({rank_of(5, 8, 2), rank_of(0, 4, 11)}), 0.4);
  EXPECT_DOUBLE_EQ(bubble_share({rank_of(5, 8, 2), rank_of(0, 12, 3)}), 2 / 22.0);
}

}  // namespace
}  // namespace penstock
