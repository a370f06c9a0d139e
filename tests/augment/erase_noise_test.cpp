// erase(value=random): the noise is normal, each value is a function of (key, pixel, channel), and it is not
// normalised.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "augment/draws/normal_noise.h"
#include "augment/pixels/half.h"
#include "augment/render.h"
#include "augment/transform.h"
#include "tests/augment/pictures.h"
#include "tests/augment/refusal.h"

namespace penstock {
namespace {

using testing::HasSubstr;

TEST(NormalQuantileTest, IsTheInverseOfTheDistribution) {
  Rng rng(1, 2, 3, 4);
  for (int i = 0; i < 100000; ++i) {
    // Every second draw is of a tail, down to 2^-32.
    const uint32_t bits = i % 2 == 0 ? rng.next() : rng.next() >> rng.between(3, 31);
    const double p = (bits + 0.5) * 0x1p-32;
    const double found = 0.5 * std::erfc(-detail::normal_quantile(bits) / std::sqrt(2.0));
    // In the tail p changes by the square of the value, up to 39, times the relative error: 1e-7, and f32's 6e-8.
    ASSERT_NEAR(found / p, 1, 7e-6) << bits;
    ASSERT_EQ(detail::normal_quantile(~bits), -detail::normal_quantile(bits));
  }
}

/// The counts of 20 classes of equal probability, over every value that 40 pictures of 3 channels are erased with.
TEST(EraseNoiseTest, IsTheStandardNormalDistributionInEveryChannel) {
  const Pipeline pipeline("erase(p=1,value=random)", {.channels = 3});
  std::array<std::array<int, 20>, 3> counts{};
  int total = 0;
  double products = 0;  // of neighbours in a row
  for (uint64_t id = 0; id < 40; ++id) {
    const Plan plan = pipeline.plan(64, 64, 1, 0, id);
    ASSERT_EQ(plan.erased_count, 1);
    const ErasedRect& rect = plan.erased[0];
    for (int row = rect.top; row < rect.bottom; ++row)
      for (int column = rect.left; column < rect.right; ++column) {
        const auto pixel = static_cast<uint32_t>(row * 64 + column);
        detail::PixelNoise noise(*rect.noise_key, pixel), next(*rect.noise_key, pixel + 1);
        for (size_t channel = 0; channel < 3; ++channel) {
          const float value = noise(static_cast<int>(channel));
          if (channel == 0) products += value * next(0);
          ++counts[channel][static_cast<size_t>(10 * std::erfc(-value / std::sqrt(2.0)))];
        }
        ++total;
      }
  }
  ASSERT_GT(total, 20000);
  EXPECT_LT(std::fabs(products), 4.5 * std::sqrt(total));
  for (const auto& channel : counts) {
    double chi_squared = 0;
    for (const int count : channel) chi_squared += (count - total / 20.0) * (count - total / 20.0) / (total / 20.0);
    EXPECT_LT(chi_squared, 19 + 4.5 * std::sqrt(2 * 19));
  }
}

/// Elements of a row as floats, whatever the layout.
float noise_element(const std::vector<uint8_t>& row, Layout layout, size_t at) {
  if (layout == Layout::kU8Nhwc) return row[at];
  if (element_bytes(layout) == 4) {
    float value = 0;
    std::memcpy(&value, row.data() + 4 * at, 4);
    return value;
  }
  uint16_t bits = 0;
  std::memcpy(&bits, row.data() + 2 * at, 2);
  return bits;
}

TEST(EraseNoiseTest, EveryLayoutHasTheSameNoiseAndTheRestIsThePicture) {
  Rng rng(5, 0, 0, 0);
  for (const auto& [channels, is_one_color] : {std::pair(1, false), std::pair(3, false), std::pair(3, true)}) {
    const auto picture = test::noise_picture(9, 11, channels, rng);
    Plan plain = Plan::identity(9, 11), noisy = plain;
    ErasedRect rect{2, 3, 7, 13};  // it reaches beyond the right side
    rect.noise_key = 0x123456789abcdef;
    rect.is_one_color = is_one_color;
    noisy.erase(rect);
    for (const Layout layout :
         {Layout::kF32Nchw, Layout::kF32Nhwc, Layout::kF16Nchw, Layout::kBf16Nhwc, Layout::kU8Nhwc}) {
      std::vector<uint8_t> without(9 * 11 * 3 * 4), with(without);
      render(picture.view, plain, test::kNormalization, layout, without.data());
      render(picture.view, noisy, test::kNormalization, layout, with.data());
      for (int pixel = 0; pixel < 99; ++pixel) {
        detail::PixelNoise noise(*rect.noise_key, is_one_color ? 0 : static_cast<uint32_t>(pixel));
        for (int channel = 0; channel < channels; ++channel) {
          const auto at = static_cast<size_t>(is_planar(layout) ? channel * 99 + pixel : pixel * channels + channel);
          const float value = noise(channel);
          const float level = (value - test::kNormalization.bias[channel]) / test::kNormalization.scale[channel];
          float expected = value;
          if (layout == Layout::kF16Nchw) expected = detail::f16_bits(value);
          if (layout == Layout::kBf16Nhwc) expected = detail::bf16_bits(value);
          if (layout == Layout::kU8Nhwc) expected = std::nearbyint(std::clamp(level, 0.f, 255.f));
          const bool is_erased = pixel / 11 >= 2 && pixel / 11 < 7 && pixel % 11 >= 3;
          ASSERT_EQ(noise_element(with, layout, at), is_erased ? expected : noise_element(without, layout, at))
              << layout_name(layout) << " " << pixel << " " << channel;
        }
      }
    }
  }
}

TEST(EraseNoiseTest, KeysDifferAndRectanglesAreThoseOfAValue) {
  const Pipeline noisy("erase(value=random)", {}), plain("erase", {});
  EXPECT_TRUE(noisy.makes_noise());
  EXPECT_FALSE(plain.makes_noise());
  std::set<uint64_t> keys;
  size_t erased = 0;
  for (uint64_t id = 0; id < 1000; ++id) {
    const Plan a = noisy.plan(28, 28, 1, id % 2, id), b = plain.plan(28, 28, 1, id % 2, id);
    ASSERT_EQ(a.erased_count, b.erased_count);
    if (a.erased_count == 0) continue;
    ++erased;
    keys.insert(*a.erased[0].noise_key);
    ASSERT_EQ(a.erased[0].top, b.erased[0].top);
    ASSERT_EQ(a.erased[0].right, b.erased[0].right);
    ASSERT_FALSE(b.erased[0].noise_key);
  }
  EXPECT_EQ(keys.size(), erased);
  EXPECT_NEAR(static_cast<double>(erased), 500, 4.5 * std::sqrt(250));
}

TEST(EraseNoiseTest, AColorIsDrawnForEveryRectangle) {
  const Pipeline colored("erase(p=1,value=random-color)", {.channels = 3}), noisy("erase(p=1,value=random)", {});
  EXPECT_TRUE(colored.makes_noise());
  double sum = 0, squares = 0;
  constexpr int kCount = 4000;
  for (uint64_t id = 0; id < kCount; ++id) {
    const ErasedRect rect = colored.plan(28, 28, 1, 0, id).erased[0];
    ASSERT_TRUE(rect.is_one_color);
    ASSERT_EQ(rect.noise_key, noisy.plan(28, 28, 1, 0, id).erased[0].noise_key);
    const float value = detail::PixelNoise(*rect.noise_key, 0)(0);
    sum += value;
    squares += value * value;
  }
  EXPECT_NEAR(sum / kCount, 0, 4.5 / std::sqrt(kCount));
  EXPECT_NEAR(squares / kCount, 1, 4.5 * std::sqrt(2.0 / kCount));
}

TEST(EraseNoiseTest, OtherWordsAreRefused) {
  EXPECT_EQ(test::refusal("erase(value=noise)", {}),
            "transform erase: value is \"noise\"; expected V or R:G:B, random or random-color");
}

}  // namespace
}  // namespace penstock
