// level_sums() is what a plain loop gives.
#include "loader/pack/level_sums.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "augment/render.h"
#include "tests/support/forced_target.h"

namespace penstock::detail {
namespace {

/// Compares with a plain loop, on every instruction set.
void expect_plain_sums(const std::vector<uint8_t>& levels, int width, int channels) {
  std::array<LevelSums, 3> expected;
  for (int i = 0; i < width * channels; ++i) {
    expected[i % channels].sum += levels[i];
    expected[i % channels].sum_of_squares += uint64_t{levels[i]} * levels[i];
  }
  for (const auto& name : render_targets()) {
    const test::ForcedTarget target(name);
    const auto found = level_sums(levels.data(), width, channels);
    for (int channel = 0; channel < 3; ++channel) {
      EXPECT_EQ(found[channel].sum, expected[channel].sum) << name << ", " << width << " x " << channels;
      EXPECT_EQ(found[channel].sum_of_squares, expected[channel].sum_of_squares)
          << name << ", " << width << " x " << channels;
    }
  }
}

TEST(LevelSumsTest, AnyWidthGivesTheSumsOfAPlainLoop) {
  std::mt19937 random(4);
  std::vector<uint8_t> levels(3 * 200);
  for (uint8_t& level : levels) level = static_cast<uint8_t>(random());
  for (const int channels : {1, 3})
    for (int width = 0; width <= 200; ++width) expect_plain_sums(levels, width, channels);
}

TEST(LevelSumsTest, TheWidestWhiteRowDoesNotOverflow) {
  constexpr int kWidth = 65535;
  const std::vector<uint8_t> white(3 * kWidth, 255);
  for (const int channels : {1, 3}) expect_plain_sums(white, kWidth, channels);
}

}  // namespace
}  // namespace penstock::detail
