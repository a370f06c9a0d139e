// render() of rasters: the same bits as of grey and RGB pictures of u8, channel by channel, and what only rasters have.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "augment/pixels/half.h"
#include "augment/plan/footprint.h"
#include "augment/plan/sampling.h"
#include "augment/render.h"
#include "augment/transform.h"
#include "core/error.h"
#include "tests/augment/pictures.h"
#include "tests/augment/refusal.h"
#include "tests/support/forced_target.h"
#include "tests/support/testing.h"

namespace penstock {
namespace {

using test::kLevels, test::noise_picture, test::OwnedPicture, test::random_plan, test::rendered;
using testing::HasSubstr;

constexpr PixelType kTypes[] = {PixelType::kU8, PixelType::kU16, PixelType::kF32};

Plan random_raster_plan(int height, int width, Rng& rng) {
  Plan plan = random_plan(height, width, rng);
  plan.color = Plan().color;
  return plan;
}

template <class Level>
void put_level(std::vector<uint8_t>& pixels, size_t i, float level) {
  const auto value = static_cast<Level>(level);
  std::memcpy(&pixels[i * sizeof value], &value, sizeof value);
}

/// `level(i)` for the i-th level. The first byte of the pixels is odd, so that none of them is aligned.
template <class LevelAt>
OwnedPicture raster_of(PixelType type, int height, int width, int channels, const LevelAt& level_at) {
  OwnedPicture picture;
  const size_t count = static_cast<size_t>(height) * static_cast<size_t>(width) * static_cast<size_t>(channels);
  std::vector<uint8_t> pixels(count * level_bytes(type));
  for (size_t i = 0; i < count; ++i) {
    if (type == PixelType::kU8) put_level<uint8_t>(pixels, i, level_at(i));
    if (type == PixelType::kU16) put_level<uint16_t>(pixels, i, level_at(i));
    if (type == PixelType::kF32) put_level<float>(pixels, i, level_at(i));
  }
  picture.pixels.assign(1, 0);
  picture.pixels.insert(picture.pixels.end(), pixels.begin(), pixels.end());
  picture.view = {.pixels = picture.pixels.data() + 1,
                  .row_stride = static_cast<ptrdiff_t>(level_bytes(type)) * width * channels,
                  .height = height,
                  .width = width,
                  .channels = channels,
                  .type = type};
  return picture;
}

std::vector<float> floats(const Picture& picture, const Plan& plan,
                          const Normalization& to = Normalization::plain(PixelType::kF32)) {
  const auto bytes = rendered(picture, plan, to, Layout::kF32Nchw);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

TEST(RasterTest, LevelsOfEightBitsGiveWhatPicturesOfU8Give) {
  Rng rng(31, 0, 0, 0);
  const Normalization levels = Normalization::plain(PixelType::kF32);
  int filtered_count = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    const int height = rng.between(1, 30), width = rng.between(1, 30), channels = rng.chance(0.5) ? 1 : 3;
    OwnedPicture plain = noise_picture(height, width, channels, rng);
    // Sums with negative weights are limited to what a type can have, so that they must stay within that of u8.
    for (auto& pixel : plain.pixels) pixel = static_cast<uint8_t>(96 + pixel / 4);
    const Plan plan = random_raster_plan(height, width, rng);
    const auto expected = floats(plain.view, plan, levels);
    for (const PixelType type : {PixelType::kU16, PixelType::kF32}) {
      const OwnedPicture raster =
          raster_of(type, height, width, channels, [&](size_t i) { return static_cast<float>(plain.pixels[i]); });
      const auto found = floats(raster.view, plan, levels);
      if (!detail::sampling_axes(plan).are_filtered) {
        ASSERT_EQ(found, expected) << "trial " << trial;
        continue;
      }
      ++filtered_count;
      for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 0.06) << "trial " << trial;
    }
  }
  EXPECT_GT(filtered_count, 1000);
}

TEST(RasterTest, SumsOfWholeNumbersAreLimitedAfterEachPassAndThoseOfFloatsAreNot) {
  Rng rng(36, 0, 0, 0);
  const Normalization levels = Normalization::plain(PixelType::kF32);
  int beyond_count = 0;
  for (int trial = 0; trial < 600; ++trial) {
    const int height = rng.between(1, 30), width = rng.between(1, 30);
    OwnedPicture plain = noise_picture(height, width, 3, rng);
    for (auto& pixel : plain.pixels) pixel = pixel < 128 ? 0 : 255;
    Plan plan = random_raster_plan(height, width, rng);
    plan.filter = trial % 2 == 0 ? Filter::kAntialiasBicubic : Filter::kAntialiasLanczos;
    plan.fill.fill(0), plan.erased_count = 0;
    const auto raster = [&](PixelType type, float factor) {
      return floats(raster_of(type, height, width, 3, [&](size_t i) { return factor * plain.pixels[i]; }).view, plan,
                    levels);
    };
    const auto expected = floats(plain.view, plan, levels), words = raster(PixelType::kU16, 257);
    for (size_t i = 0; i < words.size(); ++i) ASSERT_NEAR(words[i] / 257, expected[i], 0.06) << "trial " << trial;
    for (const float level : raster(PixelType::kF32, 1)) beyond_count += level < -1 || level > 256;
  }
  EXPECT_GT(beyond_count, 1000);
}

TEST(RasterTest, RowsFarApartHaveTheSameBits) {
  Rng rng(37, 0, 0, 0);
  for (int trial = 0; trial < 200; ++trial) {
    const int width = rng.between(1, 30);
    const OwnedPicture raster = raster_of(PixelType::kU16, 1, width, 3, [&](size_t) { return rng.uniform(0, 65535); });
    Plan plan = random_raster_plan(1, width, rng);
    plan.filter = static_cast<Filter>(trial % 3);
    Picture apart = raster.view;
    apart.row_stride = ptrdiff_t{1} << 33;  // offsets do not fit 32 bits, so that no vector can hold them
    ASSERT_EQ(floats(apart, plan), floats(raster.view, plan)) << "trial " << trial;
  }
}

TEST(RasterTest, EachChannelIsRenderedAsIfItWereAlone) {
  Rng rng(32, 0, 0, 0);
  for (const PixelType type : kTypes)
    for (const int channels : {2, 4, 13, 32})
      for (int trial = 0; trial < 40; ++trial) {
        const int height = rng.between(1, 25), width = rng.between(1, 25);
        const auto span = static_cast<size_t>(channels);
        Plan plan = random_raster_plan(height, width, rng);
        plan.fill.fill(77);
        for (auto& rect : plan.erased) rect.level.fill(rect.level[0]);
        std::vector<float> levels(static_cast<size_t>(height * width) * span);
        for (auto& level : levels) level = static_cast<float>(rng.next() >> 25);
        const OwnedPicture whole = raster_of(type, height, width, channels, [&](size_t i) { return levels[i]; });
        Normalization to;
        for (size_t c = 0; c < span; ++c)
          to.scale[c] = 0.5F + static_cast<float>(c), to.bias[c] = static_cast<float>(c);
        const auto found = floats(whole.view, plan, to);
        const size_t plane = found.size() / span;
        for (size_t c = 0; c < span; ++c) {
          // A picture of u8 and one channel is no raster. The levels are below 128, so that u16 limits them alike.
          const PixelType own_type = type == PixelType::kU8 ? PixelType::kU16 : type;
          const OwnedPicture alone =
              raster_of(own_type, height, width, 1, [&](size_t i) { return levels[i * span + c]; });
          Normalization own;
          own.scale[0] = to.scale[c], own.bias[0] = to.bias[c];
          ASSERT_EQ(std::vector<float>(found.begin() + static_cast<ptrdiff_t>(c * plane),
                                       found.begin() + static_cast<ptrdiff_t>((c + 1) * plane)),
                    floats(alone.view, plan, own))
              << pixel_type_name(type) << ", channel " << c << " of " << channels << ", trial " << trial;
        }
      }
}

TEST(RasterTest, OnlyTheFootprintIsRead) {
  Rng rng(33, 0, 0, 0);
  int smaller_count = 0;
  for (int trial = 0; trial < 1500; ++trial) {
    const int height = rng.between(1, 25), width = rng.between(1, 25), channels = rng.between(1, 5);
    const Plan plan = random_raster_plan(height, width, rng);
    const Region seen = footprint(plan);
    const auto level_at = [&](size_t i) { return static_cast<float>(i % 65521); };
    const OwnedPicture whole = raster_of(PixelType::kU16, height, width, channels, level_at);
    OwnedPicture part =
        raster_of(PixelType::kU16, std::max(seen.height, 0), std::max(seen.width, 0), channels, [&](size_t i) {
          const size_t c = i % static_cast<size_t>(channels), pixel = i / static_cast<size_t>(channels);
          const size_t x = pixel % static_cast<size_t>(seen.width), y = pixel / static_cast<size_t>(seen.width);
          return level_at(
              ((y + static_cast<size_t>(seen.y)) * static_cast<size_t>(width) + x + static_cast<size_t>(seen.x)) *
                  static_cast<size_t>(channels) +
              c);
        });
    part.view.x = seen.x, part.view.y = seen.y;
    smaller_count += seen.width < width || seen.height < height;
    ASSERT_EQ(floats(part.view, plan), floats(whole.view, plan)) << "trial " << trial;
  }
  EXPECT_GT(smaller_count, 500);
}

TEST(RasterTest, LayoutsHaveTheSameValues) {
  Rng rng(34, 0, 0, 0);
  const OwnedPicture raster =
      raster_of(PixelType::kU16, 9, 12, 5, [&](size_t) { return static_cast<float>(rng.next() >> 16); });
  Plan plan = Plan::identity(9, 12);
  plan.resample(Affine::scaling(2, 1.5), 6, 6);
  plan.filter = Filter::kBilinear;
  const Normalization to = Normalization::plain(PixelType::kU16);
  const auto planes = floats(raster.view, plan, to);
  const auto pixels = rendered(raster.view, plan, to, Layout::kF32Nhwc);
  const auto halves = rendered(raster.view, plan, to, Layout::kF16Nchw);
  const auto levels = rendered(raster.view, plan, to, Layout::kU16Nhwc);
  for (size_t pixel = 0; pixel < 36; ++pixel)
    for (size_t c = 0; c < 5; ++c) {
      const float value = planes[c * 36 + pixel];
      float stored = 0;
      uint16_t half = 0, level = 0;
      std::memcpy(&stored, &pixels[(pixel * 5 + c) * sizeof stored], sizeof stored);
      std::memcpy(&half, &halves[(c * 36 + pixel) * sizeof half], sizeof half);
      std::memcpy(&level, &levels[(pixel * 5 + c) * sizeof level], sizeof level);
      EXPECT_EQ(stored, value);
      EXPECT_EQ(half, detail::f16_bits(value));
      EXPECT_NEAR(level, value * 65535, 0.51);
    }
}

TEST(RasterTest, ValuesThatAreNotFiniteStayWhatTheyAre) {
  constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
  const std::array<float, 4> values{-1e30F, kInf, kNan, 3};
  const OwnedPicture raster = raster_of(PixelType::kF32, 1, 4, 1, [&](size_t i) { return values[i]; });
  Plan mirrored = Plan::identity(1, 4);
  mirrored.resample({-1, 0, 4, 0, 1, 0}, 1, 4);
  const auto found = floats(raster.view, mirrored);
  EXPECT_EQ(found[0], 3);
  EXPECT_TRUE(std::isnan(found[1]));
  EXPECT_EQ(found[2], kInf);
  EXPECT_EQ(found[3], -1e30F);
  const auto halves = rendered(raster.view, mirrored, Normalization::plain(PixelType::kF32), Layout::kF16Nchw);
  EXPECT_EQ(halves[3] & 0x7F, 0x7E);  // NaN
  EXPECT_EQ(halves[5], 0x7C);         // infinity
}

TEST(RasterTest, ThePixelAfterTheLastColumnIsNotItsNeighbour) {
  // The 4 in the last column lies before the NaN in memory, and weight 0 would not make that vanish.
  const std::array<float, 4> values{3, 4, std::numeric_limits<float>::quiet_NaN(), 6};
  const OwnedPicture raster = raster_of(PixelType::kF32, 2, 2, 1, [&](size_t i) { return values[i]; });
  Plan plan = Plan::identity(2, 2);
  plan.resample(Affine::scaling(0.5, 0.5), 4, 4);
  plan.filter = Filter::kBilinear;
  EXPECT_EQ(floats(raster.view, plan)[3], 4);
  EXPECT_EQ(floats(raster.view, plan)[15], 6);
}

TEST(RasterTest, EveryInstructionSetGivesTheSameBits) {
  Rng rng(35, 0, 0, 0);
  for (int trial = 0; trial < 100; ++trial) {
    const int height = rng.between(1, 25), width = rng.between(1, 40), channels = rng.chance(0.5) ? 1 : 6;
    const Plan plan = random_raster_plan(height, width, rng);
    const OwnedPicture raster = raster_of(PixelType::kF32, height, width, channels,
                                          [&](size_t) { return static_cast<float>(rng.uniform(-9, 9)); });
    const auto expected = floats(raster.view, plan);
    for (const auto& name : render_targets()) {
      const test::ForcedTarget target(name);
      ASSERT_EQ(floats(raster.view, plan), expected) << name << ", trial " << trial;
    }
  }
}

TEST(RasterTest, ColoursAreABug) {
  const OwnedPicture raster = raster_of(PixelType::kU16, 2, 2, 1, [](size_t) { return 1.F; });
  Plan plan = Plan::identity(2, 2);
  plan.adjust(ColorOp::kBrightness, 2);
  std::array<float, 4> output{};
  EXPECT_THAT(message_of(ErrorKind::kBug, [&] { render(raster.view, plan, {}, Layout::kF32Nchw, output.data()); }),
              HasSubstr("a picture of 1 channel of u16 with 1 colour steps to f32; expected no colours"));
  EXPECT_THROW(render(raster.view, Plan::identity(2, 2), {}, Layout::kU8Nhwc, output.data()), Error);
}

TEST(RasterTransformsTest, ColoursAreRefusedInOneLine) {
  const DataStatistics thirteen{.channels = 13, .pixels = PixelType::kU16};
  for (const char* spec :
       {"color-jitter(brightness=0.4)", "grayscale", "trivial-augment", "rand-augment", "auto-augment", "solarize"})
    EXPECT_THAT(test::refusal(spec, thirteen),
                HasSubstr("pictures have 13 channels of u16; expected 1 or 3 channels of u8"))
        << spec;
  EXPECT_THAT(test::refusal("cutout", thirteen), HasSubstr("pictures have 13 channels; expected 1 to 3"));
  EXPECT_THAT(test::refusal("erase(value=0:1:0)", thirteen),
              HasSubstr("value has 3 numbers; expected 1 for pictures of 13"));
  EXPECT_THAT(test::refusal("normalize(mean=1:2:3,std=1)", thirteen),
              HasSubstr("mean has 3 numbers; expected 1 or 13"));
}

TEST(RasterTransformsTest, LevelsAreThoseOfThePixels) {
  const DataStatistics words{.channels = 2, .mean = {0.5, 0.25}, .deviation = {0.5, 2}, .pixels = PixelType::kU16};
  const DataStatistics reals{.channels = 2, .mean = {-3, 300}, .deviation = {2, 1}, .pixels = PixelType::kF32};
  EXPECT_EQ(Pipeline("affine(degrees=5,fill=40000)", words).plan(9, 9, 0, 0, 0).fill[0], 40000);
  EXPECT_EQ(Pipeline("affine(degrees=5,fill=-7.5)", reals).plan(9, 9, 0, 0, 0).fill[0], -7.5);
  EXPECT_EQ(Pipeline("letterbox(size=20)", words).plan(9, 18, 0, 0, 0).fill[0], 114 * 257);
  EXPECT_THAT(test::refusal("affine(degrees=5,fill=70000)", words), HasSubstr("expected a level from 0 to 65535"));
  EXPECT_EQ(Pipeline("erase(p=1,value=0.5)", words).plan(30, 30, 0, 0, 0).erased[0].level[0], 32767.5);
  EXPECT_FLOAT_EQ(Pipeline("", words).normalization().scale[1], 1 / 65535.F);
  const auto normalization = Pipeline("normalize", reals).normalization();
  EXPECT_FLOAT_EQ(normalization.scale[0], 0.5F);
  EXPECT_FLOAT_EQ(normalization.bias[1], -300);
}

}  // namespace
}  // namespace penstock
