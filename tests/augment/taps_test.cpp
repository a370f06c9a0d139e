// Taps and half: compares weights with their definition, and f16 and bf16 with the compiler's own types.
#include "augment/kernels/taps.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "augment/pixels/half.h"
#include "core/rng.h"

namespace penstock::detail {
namespace {

int weight_of(const Taps& taps, int i, int tap) {
  return static_cast<int>(taps.pairs[tap / 2 * taps.pair_stride + i] >> (tap % 2 * 16) & 0xFFFF);
}

double sinc(double x) { return x == 0 ? 1 : std::sin(M_PI * x) / (M_PI * x); }

/// The functions as Pillow's Resample.c has them, with libm.
double weight_at(TapKernel kernel, double x) {
  const double d = std::fabs(x), a = -0.5;
  switch (kernel) {
    case TapKernel::kTriangle:
      return std::fmax(1 - d, 0);
    case TapKernel::kBox:
      return x > -0.5 && x <= 0.5 ? 1 : 0;
    case TapKernel::kHamming:
      return d < 1 ? sinc(x) * (0.54 + 0.46 * std::cos(M_PI * x)) : 0;
    case TapKernel::kBicubic:
      return d < 1 ? ((a + 2) * d - (a + 3)) * d * d + 1 : d < 2 ? (((d - 5) * d + 8) * d - 4) * a : 0;
    case TapKernel::kLanczos:
      return d < 3 ? sinc(x) * sinc(x / 3) : 0;
  }
  return 0;
}

TEST(TapsTest, WeightsAreTheTriangleAndSumToOne) {
  Rng rng(21, 0, 0, 0);
  for (int trial = 0; trial < 500; ++trial) {
    const int input = rng.between(1, 300), output = rng.between(1, 300);
    const double step = static_cast<double>(input) / output * rng.uniform(0.5, 1.5) * (rng.chance(0.5) ? 1 : -1);
    const Axis axis{.step = step, .start = rng.uniform(0, input), .input_size = input, .output_size = output};
    Taps taps;
    taps.assign(axis);
    for (int i = 0; i < output; ++i) {
      const double center = step * (i + 0.5) + axis.start;
      EXPECT_EQ(i >= taps.begin && i < taps.end, center >= 0 && center < input);
    }
    for (int i = 0; i < taps.end - taps.begin; ++i) {
      const double center = axis.center(taps.begin + i);
      double total = 0;
      const auto triangle = [&](int pixel) {
        return pixel < 0 || pixel >= input ? 0 : std::fmax(1 - std::fabs(pixel + 0.5 - center) / axis.reach(), 0);
      };
      for (int pixel = 0; pixel < input; ++pixel) total += triangle(pixel);
      int sum = 0;
      for (int tap = 0; tap < 2 * taps.pair_count; ++tap) {
        const int weight = weight_of(taps, i, tap);
        EXPECT_NEAR(weight, 16384 * triangle(taps.first[i] + tap) / total, 1.001);
        EXPECT_TRUE(weight == 0 || taps.first[i] + tap < taps.pixel_end);
        sum += weight;
      }
      EXPECT_EQ(sum, 16384);
      EXPECT_GE(taps.first[i], taps.first_pixel);
    }
  }
}

TEST(TapsTest, WeightsOfEveryKernelAreItsFunctionAndSumToOne) {
  for (const TapKernel kernel :
       {TapKernel::kBox, TapKernel::kHamming, TapKernel::kBicubic, TapKernel::kLanczos, TapKernel::kTriangle}) {
    SCOPED_TRACE(static_cast<int>(kernel));
    Rng rng(22, 0, static_cast<uint64_t>(kernel), 0);
    int least = 0, greatest = 0;
    for (int trial = 0; trial < 300; ++trial) {
      const int input = rng.chance(0.2) ? rng.between(1, 4) : rng.between(1, 300), output = rng.between(1, 300);
      const double step = static_cast<double>(input) / output * (rng.chance(0.5) ? 1 : -1);
      const Axis axis{step, step > 0 ? 0.0 : input, input, output, kernel};
      Taps taps;
      taps.assign(axis);
      ASSERT_EQ(taps.end - taps.begin, output);
      for (int i = 0; i < output; ++i) {
        const auto position = [&](int pixel) { return (pixel + 0.5 - axis.center(i)) / axis.unit(); };
        const auto exact = [&](int pixel) {
          return pixel < 0 || pixel >= input ? 0 : weight_at(kernel, position(pixel));
        };
        double total = 0;
        bool is_tie = false;  // a pixel on the edge of a box is in it or not, as its centre is rounded
        for (int pixel = 0; pixel < input; ++pixel) {
          total += exact(pixel);
          is_tie |= kernel == TapKernel::kBox && std::fabs(std::fabs(position(pixel)) - 0.5) < 1e-9;
        }
        int sum = 0;
        for (int tap = 0; tap < 2 * taps.pair_count; ++tap) {
          const int weight = static_cast<int16_t>(weight_of(taps, i, tap)), pixel = taps.first[i] + tap;
          if (!is_tie) {
            ASSERT_NEAR(weight, 16384 * exact(pixel) / total, 1.001);
          }
          ASSERT_TRUE(weight == 0 || pixel < taps.pixel_end);
          least = std::min(least, weight), greatest = std::max(greatest, weight);
          sum += weight;
        }
        ASSERT_EQ(sum, 16384);
      }
    }
    EXPECT_EQ(least < 0, has_lobes(kernel));
    EXPECT_LT(greatest, 1.3 * 16384);
  }
}

TEST(TapsTest, TwoTapsWherePicturesGrowAndAllOfThemWhereOnePixelIsLeft) {
  Taps taps;
  taps.assign({.step = 0.4, .start = 0, .input_size = 40, .output_size = 100});
  EXPECT_EQ(taps.pair_count, 1);
  taps.assign({.step = 1.9, .start = 0, .input_size = 190, .output_size = 100});
  EXPECT_EQ(taps.pair_count, 2);
  taps.assign({.step = 65535, .start = 0, .input_size = 65535, .output_size = 1});
  int sum = 0;
  for (int tap = 0; tap < 2 * taps.pair_count; ++tap) sum += weight_of(taps, 0, tap);
  EXPECT_EQ(sum, 16384);
  EXPECT_EQ(taps.first_pixel, 0);
  EXPECT_EQ(taps.pixel_end, 65535);
}

TEST(TapsTest, NothingIsLookedAtFromOutside) {
  Taps taps;
  taps.assign({.step = 1.5, .start = -60, .input_size = 40, .output_size = 40});
  EXPECT_EQ(taps.begin, taps.end);
}

/// Calls `check` for every 997th f32 and for the neighbours of each border between two f16 values.
template <class Check>
void for_many_floats(const Check& check) {
  const auto check_number = [&](uint32_t bits) {
    const auto value = std::bit_cast<float>(bits);
    if (!std::isnan(value)) check(value);
  };
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 997) check_number(static_cast<uint32_t>(bits));
  for (uint32_t upper = 0; upper < 0x47800; ++upper)
    for (const uint32_t lower : {0u, 0xFFFu, 0x1000u, 0x1001u, 0x1FFFu}) check_number(upper << 13 | lower);
}

TEST(HalfTest, F16IsTheCompilersConversion) {
  int difference_count = 0;
  for_many_floats([&](float value) {
    difference_count += f16_bits(value) != std::bit_cast<uint16_t>(static_cast<_Float16>(value));
  });
  EXPECT_EQ(difference_count, 0);
}

TEST(HalfTest, Bf16IsTheNearestWithEvenOnTies) {
  int difference_count = 0;
  for_many_floats([&](float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    if (!std::isfinite(value) || (bits & 0x7FFFFFFF) >= 0x7F7F0000) return;
    const double below = std::bit_cast<float>(bits & 0xFFFF0000),
                 above = std::bit_cast<float>((bits & 0xFFFF0000) + 0x10000);
    const double to_below = std::fabs(value - below), to_above = std::fabs(above - value);
    const bool takes_above = to_above < to_below || (to_above == to_below && (bits >> 16 & 1) != 0);
    difference_count += bf16_bits(value) != (bits >> 16) + takes_above;
  });
  EXPECT_EQ(difference_count, 0);
}

}  // namespace
}  // namespace penstock::detail
