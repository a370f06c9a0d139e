// Compares colour steps of a plan with a plain renderer: equal bits on every instruction set; tests what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "augment/kernels/render_job.h"
#include "augment/pixels/blur_taps.h"
#include "augment/pixels/half.h"
#include "augment/render.h"
#include "core/error.h"
#include "tests/augment/pictures.h"
#include "tests/augment/reference.h"
#include "tests/support/case_stride.h"
#include "tests/support/forced_target.h"

namespace penstock {
namespace {

using test::ForcedTarget;
using test::kLevels, test::kNormalization;
using test::noise_picture;
using test::OwnedPicture;
using test::random_plan;
using test::reference_render;
using test::rendered;

/// Pixels, each with C levels.
using Pixels = std::vector<std::array<float, 3>>;

float clamped(float level) { return std::clamp(level, 0.f, 255.f); }
int whole(float level) { return static_cast<int>(std::nearbyint(clamped(level))); }

float grey_of(const std::array<float, 3>& p, int channels) {
  return channels == 1 ? p[0] : (p[0] * 0.2989f + p[1] * 0.587f) + p[2] * 0.114f;
}

std::array<float, 3> hue_turned(const std::array<float, 3>& p, float turns) {
  const float value = std::max({p[0], p[1], p[2]}), chroma = value - std::min({p[0], p[1], p[2]});
  const int top = value == p[0] ? 0 : value == p[1] ? 1 : 2;
  const float slope = (p[(top + 1) % 3] - p[(top + 2) % 3]) / (chroma == 0 ? 1 : chroma);
  float hue = (static_cast<float>(2 * top) + slope) + 6 * turns;
  if (hue < 0) hue += 6;
  if (hue >= 6) hue -= 6;
  std::array<float, 3> out{};
  for (int i = 0; i < 3; ++i) {
    float k = hue + static_cast<float>(5 - 2 * i);
    if (k >= 6) k -= 6;
    out[i] = clamped(value - chroma * std::clamp(std::min(k, 4 - k), 0.f, 1.f));
  }
  return out;
}

float mean_grey(const Pixels& pixels, int channels) {
  int64_t sum = 0;
  for (const auto& p : pixels) sum += static_cast<int64_t>(std::nearbyint(clamped(grey_of(p, channels)) * 128));
  return static_cast<float>(static_cast<double>(sum) / (128.0 * static_cast<double>(pixels.size())));
}

/// The levels of one channel, for all pixels.
std::vector<float> channel_of(const Pixels& pixels, int channel) {
  std::vector<float> levels;
  for (const auto& p : pixels) levels.push_back(p[channel]);
  return levels;
}

void auto_contrast(Pixels& pixels, int channel) {
  const auto levels = channel_of(pixels, channel);
  const auto [least, greatest] = std::minmax_element(levels.begin(), levels.end());
  const float scale = *least == *greatest ? 1 : 255 / (*greatest - *least);
  const float offset = *least == *greatest ? 0 : -*least * scale;
  for (auto& p : pixels) p[channel] = clamped(p[channel] * scale + offset);
}

void equalize(Pixels& pixels, int channel) {
  std::vector<int> levels;
  for (const auto& p : pixels) levels.push_back(whole(p[channel]));
  const int last = *std::max_element(levels.begin(), levels.end());
  const auto below = [&](int level) {
    return std::count_if(levels.begin(), levels.end(), [&](int l) { return l < level; });
  };
  const auto step = below(last) / 255;
  for (size_t i = 0; i < pixels.size(); ++i)
    pixels[i][channel] = step == 0 ? static_cast<float>(levels[i])
                                   : static_cast<float>(std::min<ptrdiff_t>((step / 2 + below(levels[i])) / step, 255));
}

void sharpen(Pixels& pixels, int channel, int height, int width, float factor) {
  const auto before = channel_of(pixels, channel);
  for (int row = 1; row + 1 < height; ++row) {
    for (int column = 1; column + 1 < width; ++column) {
      const auto at = [&](int dy, int dx) { return before[static_cast<size_t>((row + dy) * width + column + dx)]; };
      const float around =
          ((at(-1, -1) + at(-1, 0)) + (at(-1, 1) + at(0, -1))) + ((at(0, 1) + at(1, -1)) + (at(1, 0) + at(1, 1)));
      const float blurred = (around + 5 * at(0, 0)) * (1 / 13.f);
      pixels[static_cast<size_t>(row * width + column)][channel] = clamped(factor * at(0, 0) + (1 - factor) * blurred);
    }
  }
}

/// One pass over a line of levels, which lie `stride` apart from `first` on.
void blur_line(std::vector<float>& levels, size_t first, size_t stride, int size, int kernel,
               const detail::BlurTaps& taps) {
  const auto before = levels;
  const Border border = kernel == 0 ? Border::kEdge : Border::kReflect;
  const auto at = [&](int i) { return before[first + stride * static_cast<size_t>(pixel_at(border, i, size))]; };
  for (int i = 0; i < size; ++i) {
    float sum = at(i) * taps.weight[0];
    for (int k = 1; k <= taps.reach; ++k) sum += (at(i - k) + at(i + k)) * taps.weight[k];
    levels[first + stride * static_cast<size_t>(i)] = kernel == 0 ? static_cast<float>(whole(sum)) : clamped(sum);
  }
}

void blur(Pixels& pixels, int channel, int height, int width, const ColorStep& step) {
  auto levels = channel_of(pixels, channel);
  const auto taps = detail::blur_taps(step.kernel, detail::blur_shape(step.amount, step.kernel));
  const int passes = step.kernel == 0 ? 3 : 1;
  for (int i = 0; i < passes; ++i)
    for (int row = 0; row < height; ++row)
      blur_line(levels, static_cast<size_t>(row) * width, 1, width, step.kernel, taps);
  for (int i = 0; i < passes; ++i)
    for (int column = 0; column < width; ++column) blur_line(levels, column, width, height, step.kernel, taps);
  for (size_t i = 0; i < levels.size(); ++i) pixels[i][channel] = levels[i];
}

/// What a step does to one level of one channel, for the steps that treat each level on its own.
float changed(const ColorStep& step, float level) {
  if (step.op == ColorOp::kBrightness) return clamped(level * step.amount + 0);
  if (step.op == ColorOp::kPosterize)
    return static_cast<float>(whole(level) & (256 - (1 << (8 - static_cast<int>(step.amount)))));
  const auto rounded = static_cast<float>(whole(level));
  if (step.op == ColorOp::kSolarizeAdd) return rounded < 128 ? clamped(rounded + step.amount) : rounded;
  return rounded >= step.amount ? 255 - rounded : rounded;
}

void take(const ColorStep& step, Pixels& pixels, int height, int width, int channels) {
  const float mean = mean_grey(pixels, channels), factor = step.amount;
  for (int i = 0; i < channels; ++i) {
    if (step.op == ColorOp::kAutoContrast) auto_contrast(pixels, i);
    if (step.op == ColorOp::kEqualize) equalize(pixels, i);
    if (step.op == ColorOp::kGaussianBlur) blur(pixels, i, height, width, step);
    if (step.op == ColorOp::kSharpness && height > 2 && width > 2) sharpen(pixels, i, height, width, factor);
  }
  for (auto& p : pixels) {
    if (step.op == ColorOp::kHue && channels == 3) p = hue_turned(p, factor);
    const float grey = grey_of(p, channels) * (1 - factor);
    for (int i = 0; i < channels; ++i) {
      if (step.op == ColorOp::kSaturation && channels == 3) p[i] = clamped(p[i] * factor + grey);
      if (step.op == ColorOp::kContrast) p[i] = clamped(p[i] * factor + (1 - factor) * mean);
      if (step.op == ColorOp::kBrightness || step.op == ColorOp::kPosterize || step.op == ColorOp::kSolarize ||
          step.op == ColorOp::kSolarizeAdd)
        p[i] = changed(step, p[i]);
    }
  }
}

/// A readable and slow implementation of the contract of colour steps, one step after the other.
std::vector<uint8_t> reference_in_color(const Picture& picture, const Plan& plan, Layout layout) {
  Plan plain = plan;
  plain.color_step_count = plain.erased_count = 0;
  const auto bytes = reference_render(picture, plain, kLevels, Layout::kF32Nchw);
  const size_t count = static_cast<size_t>(plan.output_height) * plan.output_width;
  const int channels = picture.channels;
  std::vector<float> planes(count * channels);
  std::memcpy(planes.data(), bytes.data(), bytes.size());
  Pixels pixels(count);
  for (size_t i = 0; i < planes.size(); ++i) pixels[i % count][i / count] = planes[i];
  for (int s = 0; s < plan.color_step_count; ++s)
    take(plan.color_steps[s], pixels, plan.output_height, plan.output_width, channels);
  std::vector<uint8_t> output(rendered_bytes(layout, {plan.output_height, plan.output_width, channels}));
  for (size_t i = 0; i < planes.size(); ++i) {
    const size_t pixel = i % count, channel = i / count;
    const float level = pixels[pixel][channel];
    const float value = level * kNormalization.scale[channel] + kNormalization.bias[channel];
    if (layout == Layout::kU8Nhwc)
      output[pixel * channels + channel] = static_cast<uint8_t>(whole(level));
    else
      std::memcpy(&output[i * sizeof(float)], &value, sizeof(float));
  }
  return output;
}

float random_amount(ColorOp op, Rng& rng) {
  if (op == ColorOp::kHue) return static_cast<float>(rng.uniform(-0.5, 0.5));
  if (op == ColorOp::kPosterize) return static_cast<float>(rng.between(1, 8));
  if (op == ColorOp::kSolarize) return static_cast<float>(rng.uniform(0, 256));
  if (op == ColorOp::kSolarizeAdd) return static_cast<float>(rng.between(0, 128));
  if (op == ColorOp::kGaussianBlur) return static_cast<float>(rng.uniform(0.05, 6));
  return static_cast<float>(rng.uniform(0, 2));
}

void add_random_steps(Plan& plan, Rng& rng) {
  plan.erased_count = 0;
  for (int k = rng.between(1, Plan::kMaxColorSteps); k > 0; --k) {
    const auto op = static_cast<ColorOp>(rng.between(0, static_cast<int>(ColorOp::kGaussianBlur)));
    const int kernel = op == ColorOp::kGaussianBlur && rng.chance(0.7) ? 2 * rng.between(0, 30) + 1 : 0;
    plan.adjust(op, random_amount(op, rng), kernel);
  }
}

class ColorTargetTest : public testing::TestWithParam<std::string> {};

TEST_P(ColorTargetTest, BitsEqualThePlainRenderer) {
  const ForcedTarget target(GetParam());
  for (uint64_t trial = 0; trial < 1500; trial += kCaseStride) {
    Rng rng(21, 0, trial, 0);
    const int height = rng.between(1, 40), width = rng.between(1, 40), channels = rng.chance(0.3) ? 1 : 3;
    const OwnedPicture picture = noise_picture(height, width, channels, rng);
    Plan plan = random_plan(height, width, rng);
    add_random_steps(plan, rng);
    for (const Layout layout : {Layout::kF32Nchw, Layout::kU8Nhwc}) {
      const auto made = rendered(picture.view, plan, kNormalization, layout);
      const auto expected = reference_in_color(picture.view, plan, layout);
      const auto at = std::mismatch(made.begin(), made.end(), expected.begin(), expected.end());
      ASSERT_TRUE(at.first == made.end())
          << "trial " << trial << ", byte " << at.first - made.begin() << ", layout " << static_cast<int>(layout)
          << ", " << plan.color_step_count << " steps from " << static_cast<int>(plan.color_steps[0].op) << ", "
          << channels << " channels";
    }
  }
}

TEST_P(ColorTargetTest, LargeOutputIsSummedExactly) {
  // White stays white under any contrast. With 1.2 million pixels, a 32-bit sum would overflow even in each of 16
  // lanes.
  const ForcedTarget target(GetParam());
  const std::vector<uint8_t> levels(1200000, 255);
  const Picture picture{.pixels = levels.data(), .row_stride = 1200, .height = 1000, .width = 1200, .channels = 1};
  Plan plan = Plan::identity(1000, 1200);
  plan.adjust(ColorOp::kContrast, 0.25f);
  EXPECT_TRUE(rendered(picture, plan, kLevels, Layout::kU8Nhwc) == levels);
}

INSTANTIATE_TEST_SUITE_P(AllTargets, ColorTargetTest, testing::ValuesIn(render_targets()),
                         [](const auto& info) { return info.param; });

TEST(ColorStepTest, OtherLayoutsAreTheFloatsRounded) {
  Rng rng(22, 0, 0, 0);
  const OwnedPicture picture = noise_picture(13, 37, 3, rng);
  for (const ColorOp op : {ColorOp::kBrightness, ColorOp::kContrast}) {  // in the sampling pass, and after it
    Plan plan = Plan::identity(13, 37);
    plan.adjust(op, 0.7f);
    const auto floats = rendered(picture.view, plan, kNormalization, Layout::kF32Nchw);
    const auto halves = rendered(picture.view, plan, kNormalization, Layout::kF16Nhwc);
    for (size_t i = 0; i < halves.size() / 2; ++i) {
      float value = 0;
      uint16_t half = 0;
      std::memcpy(&value, &floats[(i % 3 * 13 * 37 + i / 3) * sizeof(float)], sizeof(float));
      std::memcpy(&half, &halves[i * sizeof(half)], sizeof(half));
      ASSERT_EQ(half, detail::f16_bits(value)) << i;
    }
  }
}

TEST(ColorStepTest, StepsAreTakenInTheirOrder) {
  const uint8_t level = 200;
  const Picture picture{.pixels = &level, .row_stride = 1, .height = 1, .width = 1, .channels = 1};
  Plan bright_first = Plan::identity(1, 1), posterized_first = Plan::identity(1, 1);
  bright_first.adjust(ColorOp::kBrightness, 0.5f);
  bright_first.adjust(ColorOp::kPosterize, 1);
  posterized_first.adjust(ColorOp::kPosterize, 1);
  posterized_first.adjust(ColorOp::kBrightness, 0.5f);
  EXPECT_EQ(rendered(picture, bright_first, kLevels, Layout::kU8Nhwc)[0], 0);
  EXPECT_EQ(rendered(picture, posterized_first, kLevels, Layout::kU8Nhwc)[0], 64);
}

TEST(ColorStepTest, FillIsRecoloredAndErasedRectanglesAreNot) {
  const uint8_t level = 100;
  const Picture picture{.pixels = &level, .row_stride = 1, .height = 1, .width = 1, .channels = 1};
  Plan plan = Plan::identity(1, 1);
  plan.resample(Affine::translation(-1, 0), 1, 3);
  plan.fill = {40, 40, 40};
  plan.adjust(ColorOp::kBrightness, 2);
  plan.erase({0, 2, 1, 3, {7, 7, 7}});
  EXPECT_EQ(rendered(picture, plan, kLevels, Layout::kU8Nhwc), (std::vector<uint8_t>{80, 200, 7}));
}

TEST(ColorStepTest, StepBeyondTheLimitOrBehindAnEraseIsABug) {
  Plan plan = Plan::identity(4, 4);
  for (int i = 0; i < Plan::kMaxColorSteps; ++i) plan.adjust(ColorOp::kHue, 0.1f);
  EXPECT_THROW(plan.adjust(ColorOp::kHue, 0.1f), Error);
  EXPECT_THROW(plan.recolor({}), Error);
  Plan erased = Plan::identity(4, 4);
  erased.erase({});
  EXPECT_THROW(erased.adjust(ColorOp::kHue, 0.1f), Error);
}

}  // namespace
}  // namespace penstock
