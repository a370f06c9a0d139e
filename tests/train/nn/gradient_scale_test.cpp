// GradientScale: torch's sequence of scales for a sequence of overflows.
#include "train/nn/gradient_scale.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace penstock {
namespace {

/// What torch.amp.GradScaler("cpu", growth_interval=3).get_scale() says after each step, torch 2.11.
TEST(GradientScaleTest, ItHasTheScalesOfTorch) {
  GradientScale scale;
  std::vector<double> found;
  for (const bool overflows : {1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0}) {
    const double before = scale.scale;
    const bool changes = scale.after_step(overflows, 3);
    EXPECT_EQ(changes, scale.scale != before);
    found.push_back(scale.scale);
  }
  EXPECT_THAT(found, testing::ElementsAre(32768, 32768, 32768, 16384, 16384, 16384, 32768, 32768, 32768, 65536, 32768,
                                          16384, 16384, 16384, 32768));
  EXPECT_EQ(scale.skipped_steps, 4);
}

TEST(GradientScaleTest, ItGrowsAsLongAsF32HoldsIt) {
  GradientScale scale{.scale = 0x1p127};
  EXPECT_FALSE(scale.after_step(false, 1));
  EXPECT_EQ(scale.scale, 0x1p127);
}

}  // namespace
}  // namespace penstock
