// Crops, rotations and colour transforms: what is drawn and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "augment/render.h"
#include "augment/transform.h"
#include "core/text.h"
#include "tests/augment/pictures.h"
#include "tests/augment/reference.h"
#include "tests/augment/refusal.h"

namespace penstock {
namespace {

using testing::HasSubstr;

std::string color_refusal(const std::string& spec) { return test::refusal(spec, {.channels = 3}); }

Plan plan_of(const std::string& spec, int id, int height = 40, int width = 60) {
  return Pipeline(spec, {.channels = 3}).plan(height, width, 1, 0, static_cast<uint64_t>(id));
}

TEST(CropTest, PadIsShift) {
  for (int i = 0; i < 200; ++i) {
    const Plan crop = plan_of("crop(pad=3)", i), shift = plan_of("shift(pad=3)", i);
    EXPECT_EQ(crop.map.x0, shift.map.x0);
    EXPECT_EQ(crop.map.y0, shift.map.y0);
    EXPECT_EQ(crop.output_width, 60);
  }
}

TEST(CropTest, WindowLiesInThePaddedPictureAndReachesItsBorders) {
  const Pipeline pipeline("crop(height=30,width=56,pad=2)", {});
  std::set<double> xs, ys;
  for (uint64_t i = 0; i < 3000; ++i) {
    const Plan plan = pipeline.plan(40, 60, 1, 0, i);
    xs.insert(plan.map.x0);
    ys.insert(plan.map.y0);
    ASSERT_EQ(plan.output_height, 30);
    ASSERT_EQ(plan.output_width, 56);
  }
  EXPECT_EQ(xs.size(), 9u);  // -2 to 6
  EXPECT_EQ(*xs.begin(), -2);
  EXPECT_EQ(*xs.rbegin(), 6);
  EXPECT_EQ(ys.size(), 15u);  // -2 to 12
  EXPECT_EQ(*ys.begin(), -2);
  EXPECT_EQ(*ys.rbegin(), 12);
}

TEST(CropTest, SmallerPictureLiesWhollyInTheWindow) {
  const Pipeline pipeline("crop(size=45,fill=128)", {});
  std::set<double> ys;
  for (uint64_t i = 0; i < 1000; ++i) {
    const Plan plan = pipeline.plan(40, 45, 1, 0, i);
    EXPECT_EQ(plan.map.x0, 0);
    EXPECT_EQ(plan.fill[0], 128);
    ys.insert(plan.map.y0);
  }
  EXPECT_EQ(ys, (std::set<double>{-5, -4, -3, -2, -1, 0}));
}

/// A picture whose levels tell its pixels apart, and what a plan shows of it: u8, grey.
std::vector<int> shown(int height, int width, const Plan& plan) {
  std::vector<uint8_t> pixels(static_cast<size_t>(height * width));
  std::iota(pixels.begin(), pixels.end(), uint8_t{1});
  const auto bytes =
      test::rendered({.pixels = pixels.data(), .row_stride = width, .height = height, .width = width, .channels = 1},
                     plan, {}, Layout::kU8Nhwc);
  return {bytes.begin(), bytes.end()};
}

/// Pictures of `size` x (size + 2) pixels.
void expect_padded(const std::string& spec, Border border, int size) {
  const Pipeline pipeline(spec, {});
  for (uint64_t id = 0; id < 30; ++id) {
    const Plan plan = pipeline.plan(size, size + 2, 1, 0, id);
    const auto found = shown(size, size + 2, plan);
    for (int i = 0; i < plan.output_width * plan.output_height; ++i) {
      const int y = i / plan.output_width + static_cast<int>(plan.map.y0);
      const int x = i % plan.output_width + static_cast<int>(plan.map.x0);
      const int row = test::reference_place(border, y, 0, size), column = test::reference_place(border, x, 0, size + 2);
      ASSERT_EQ(found[static_cast<size_t>(i)], 1 + row * (size + 2) + column) << spec << " of " << size << " at " << i;
    }
  }
}

TEST(BorderTest, EveryPixelIsThatOfThePaddedPicture) {
  // All sizes and pads up to a border that is wider than the picture.
  const std::pair<const char*, Border> kBorders[] = {
      {"edge", Border::kEdge}, {"reflect", Border::kReflect}, {"symmetric", Border::kSymmetric}};
  for (const auto& [name, border] : kBorders) {
    for (int size = 1; size <= 7; ++size) {
      for (int window = 0; window <= 9; ++window) {  // 0: the picture's size
        for (int pad = 0; pad <= (window == 0 ? 9 : widest_border(border, window)); ++pad) {
          const std::string keys = window == 0 ? "" : concat("height=", window, ",width=", window + 1, ",");
          expect_padded(concat("crop(", keys, "pad=", pad, ",border=", name, ")"), border, size);
        }
      }
    }
  }
}

TEST(BorderTest, DrawsAreThoseOfAFilledBorder) {
  for (int i = 0; i < 200; ++i) {
    const Plan filled = plan_of("crop(size=32,pad=4)", i), copied = plan_of("crop(size=32,pad=4,border=reflect)", i);
    EXPECT_EQ(filled.map.x0, copied.map.x0);
    EXPECT_EQ(filled.map.y0, copied.map.y0);
  }
}

TEST(BorderTest, FlipsMirrorItWithThePicture) {
  for (uint64_t id = 0; id < 50; ++id) {
    const auto of = [&](const char* after) {
      const std::string crop = "crop(height=7,width=9,pad=3,border=reflect)";
      return shown(8, 10, Pipeline(crop + after, {}).plan(8, 10, 1, 0, id));
    };
    auto plain = of("");
    const auto mirrored = of(",flip(p=1)"), turned = of(",flip(p=1),vflip(p=1)");
    EXPECT_EQ(turned, std::vector<int>(plain.rbegin(), plain.rend()));
    for (int row = 0; row < 7; ++row) std::reverse(plain.begin() + row * 9, plain.begin() + (row + 1) * 9);
    EXPECT_EQ(mirrored, plain);
  }
}

TEST(BorderTest, OnlyFlipsMayMovePixelsAfterIt) {
  const std::string crop = "crop(pad=4,border=reflect)";
  for (const char* after : {"shift", "rotate(degrees=9)", "resize(size=20)", "center-crop(size=9)", "trivial-augment"})
    EXPECT_EQ(color_refusal(crop + ",flip," + after),
              concat("transform ", parse_spec("transform", after).name(), ": comes after ", crop,
                     ", whose border it would have to move; expected flips alone after it"));
  EXPECT_THAT(color_refusal(crop + ",alternating-flip,vflip,color-jitter(hue=0.1),normalize,erase"),
              HasSubstr("accepted"));
  EXPECT_THAT(color_refusal("rotate(degrees=9),resize(size=20)," + crop), HasSubstr("accepted"));
}

TEST(BorderTest, RefusesBadArguments) {
  EXPECT_THAT(color_refusal("crop(pad=2,border=mirror)"),
              HasSubstr("crop: border is \"mirror\"; expected fill, edge, reflect or symmetric"));
  EXPECT_THAT(color_refusal("crop(pad=2,fill=3,border=edge)"),
              HasSubstr("fill and border=edge are given; expected one of them"));
  EXPECT_THAT(color_refusal("crop(height=30,width=8,pad=8,border=edge)"),
              HasSubstr("pad is 8 with border=edge and a window of 8; expected at most 7"));
  EXPECT_THAT(color_refusal("crop(size=8,pad=4,border=reflect)"), HasSubstr("a window of 8; expected at most 3"));
  EXPECT_THAT(color_refusal("crop(size=8,pad=5,border=symmetric)"), HasSubstr("a window of 8; expected at most 4"));
  EXPECT_THAT(color_refusal("crop(pad=2,fill=3,border=fill)"), HasSubstr("accepted"));
}

TEST(CropTest, RefusesBadArguments) {
  EXPECT_THAT(color_refusal("crop"), HasSubstr("expected size=PIXELS, or height=PIXELS,width=PIXELS"));
  EXPECT_THAT(color_refusal("crop(height=4,pad=1)"), HasSubstr("height and width are not both given"));
  EXPECT_THAT(color_refusal("crop(size=4,pad=-1)"), HasSubstr("pad is -1; expected 0 to 65535 pixels"));
  EXPECT_THAT(color_refusal("crop(size=4,fill=300)"), HasSubstr("fill is 300; expected a level from 0 to 255"));
}

TEST(RandomResizedCropTest, SamplesOneRectangleThatLiesInThePicture) {
  const Pipeline pipeline("random-resized-crop(height=12,width=16)", {});
  double least_aspect = 1, greatest_aspect = 1, least_share = 1, greatest_share = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    const Plan plan = pipeline.plan(40, 60, 1, 0, i);
    ASSERT_EQ(plan.output_height, 12);
    ASSERT_EQ(plan.output_width, 16);
    ASSERT_EQ(plan.filter, Filter::kAntialias);
    const double columns = plan.map.xx * 16, rows = plan.map.yy * 12;
    ASSERT_NEAR(columns, std::round(columns), 1e-9);
    ASSERT_NEAR(rows, std::round(rows), 1e-9);
    ASSERT_EQ(plan.view, (Region{static_cast<int>(plan.map.x0), static_cast<int>(plan.map.y0),
                                 static_cast<int>(std::lround(columns)), static_cast<int>(std::lround(rows))}));
    ASSERT_GE(plan.view.x, 0);
    ASSERT_LE(plan.view.x + plan.view.width, 60);
    ASSERT_LE(plan.view.y + plan.view.height, 40);
    least_aspect = std::min(least_aspect, columns / rows);
    greatest_aspect = std::max(greatest_aspect, columns / rows);
    least_share = std::min(least_share, columns * rows / 2400);
    greatest_share = std::max(greatest_share, columns * rows / 2400);
  }
  // The default aspect ratio is 3/4 to 4/3, measured here on sides that are rounded to whole pixels. The default area
  // is 0.08 to 1.
  EXPECT_NEAR(least_aspect, 3. / 4, 0.05);
  EXPECT_NEAR(greatest_aspect, 4. / 3, 0.1);
  EXPECT_NEAR(least_share, 0.08, 0.01);
  EXPECT_GT(greatest_share, 0.8);  // larger areas seldom fit, because the aspect ratio of the picture is 3 / 2
}

TEST(RandomResizedCropTest, WhatFitsNowhereIsTheMiddle) {
  const Plan tall = plan_of("random-resized-crop(size=8,scale=1:1,ratio=1:1)", 0, 40, 10);
  EXPECT_EQ(tall.view, (Region{0, 15, 10, 10}));
  const Plan wide = plan_of("random-resized-crop(size=8,scale=1:1,ratio=0.5:2)", 0, 10, 41);
  EXPECT_EQ(wide.view, (Region{10, 0, 20, 10}));
  const Plan line = plan_of("random-resized-crop(size=8,scale=1:1,ratio=9:9)", 0, 3, 1);
  EXPECT_EQ(line.view, (Region{0, 1, 1, 1}));
}

TEST(RandomResizedCropTest, RefusesBadArguments) {
  EXPECT_THAT(color_refusal("random-resized-crop"), HasSubstr("expected size=PIXELS, or height=PIXELS,width=PIXELS"));
  EXPECT_THAT(color_refusal("random-resized-crop(size=8,scale=0:1)"), HasSubstr("scale is 0:1; expected fractions"));
  EXPECT_THAT(color_refusal("random-resized-crop(size=8,scale=0.5:1.5)"), HasSubstr("scale is 0.5:1.5"));
  EXPECT_THAT(color_refusal("random-resized-crop(size=8,ratio=0:1)"), HasSubstr("ratio is 0; expected more than 0"));
  EXPECT_THAT(color_refusal("random-resized-crop(size=8,filter=cubic)"),
              HasSubstr("filter is \"cubic\"; expected antialias, bilinear or nearest"));
  EXPECT_THAT(color_refusal("random-resized-crop(size=8,filter=nearest,interpolation=nearest)"),
              HasSubstr("filter and interpolation are given; expected one of them"));
  EXPECT_THAT(color_refusal("random-resized-crop(size=8,ratios=1)"), HasSubstr("unknown key \"ratios\""));
}

TEST(RotateTest, TurnsCounterClockwiseWithinItsRange) {
  double least = 999, greatest = -999;
  const Pipeline pipeline("rotate(degrees=20:50)", {});
  for (uint64_t i = 0; i < 2000; ++i) {
    const Affine map = pipeline.plan(40, 60, 1, 0, i).map;
    // The map is output -> input, so that this is clockwise on the screen.
    const double degrees = std::atan2(map.yx, map.xx) * 180 / M_PI;
    least = std::min(least, degrees), greatest = std::max(greatest, degrees);
  }
  EXPECT_NEAR(least, 20, 0.1);
  EXPECT_NEAR(greatest, 50, 0.1);
  EXPECT_THAT(color_refusal("rotate"), HasSubstr("degrees is not given; expected degrees=D or degrees=low:high"));
  EXPECT_THAT(color_refusal("rotate(degrees=-3)"), HasSubstr("degrees is -3; expected 0 or more, or low:high"));
  EXPECT_THAT(color_refusal("rotate(degrees=3,filter=antialias)"), HasSubstr("expected nearest or bilinear"));
}

TEST(FillTest, StaysUnlessATransformGivesOne) {
  EXPECT_EQ(plan_of("crop(pad=2,fill=90),rotate(degrees=9),trivial-augment", 0).fill[1], 90);
  EXPECT_EQ(plan_of("crop(pad=2,fill=90),rotate(degrees=9,fill=7)", 0).fill[1], 7);
  EXPECT_EQ(plan_of("crop(pad=2,fill=90),trivial-augment(fill=3)", 0).fill[1], 3);
}

TEST(ColorJitterTest, DrawsEveryOrderAndAllOfEachRange) {
  const Pipeline pipeline("color-jitter(brightness=0.4,contrast=1.5,saturation=0.5:0.7,hue=0.1)", {.channels = 3});
  const std::map<ColorOp, Range> ranges{{ColorOp::kBrightness, {0.6, 1.4}},
                                        {ColorOp::kContrast, {0, 2.5}},
                                        {ColorOp::kSaturation, {0.5, 0.7}},
                                        {ColorOp::kHue, {-0.1, 0.1}}};
  std::map<ColorOp, Range> seen;
  std::map<std::vector<ColorOp>, int> orders;
  constexpr int kCount = 12000;
  for (uint64_t i = 0; i < kCount; ++i) {
    const Plan plan = pipeline.plan(4, 4, 1, 0, i);
    ASSERT_EQ(plan.color_step_count, 4);
    std::vector<ColorOp> order;
    for (int k = 0; k < 4; ++k) {
      const ColorOp op = plan.color_steps[k].op;
      const float amount = plan.color_steps[k].amount;
      order.push_back(op);
      auto& range = seen.emplace(op, Range{amount, amount}).first->second;
      range = {std::min<double>(range.low, amount), std::max<double>(range.high, amount)};
    }
    ++orders[order];
  }
  EXPECT_EQ(orders.size(), 24u);
  for (const auto& [order, count] : orders) EXPECT_NEAR(count, kCount / 24, 110);  // 5 standard deviations
  ASSERT_EQ(seen.size(), 4u);
  for (const auto& [op, range] : ranges) {
    EXPECT_NEAR(seen[op].low, range.low, 0.002 * (range.high - range.low) + 1e-6) << static_cast<int>(op);
    EXPECT_NEAR(seen[op].high, range.high, 0.002 * (range.high - range.low) + 1e-6) << static_cast<int>(op);
  }
}

TEST(ColorJitterTest, KeysThatAreNotGivenAreLeftAlone) {
  const Plan plan = plan_of("color-jitter(hue=0.5)", 0);
  ASSERT_EQ(plan.color_step_count, 1);
  EXPECT_EQ(plan.color_steps[0].op, ColorOp::kHue);
  EXPECT_THAT(color_refusal("color-jitter"), HasSubstr("no amount is given; expected one of brightness, contrast"));
  EXPECT_THAT(color_refusal("color-jitter(hue=0.6)"), HasSubstr("hue is 0.6; expected 0 to 0.5"));
  EXPECT_THAT(color_refusal("color-jitter(hue=-0.6:0.1)"),
              HasSubstr("hue is -0.6:0.1; expected 0 to 0.5, or low:high"));
  EXPECT_THAT(color_refusal("color-jitter(contrast=-1)"), HasSubstr("contrast is -1; expected 0 or more"));
  EXPECT_THAT(color_refusal("color-jitter(contrast=2:1)"), HasSubstr("contrast is 2:1"));
  EXPECT_THAT(color_refusal("color-jitter(contrast=1:2:3)"), HasSubstr("contrast has 3 numbers; expected 1 or 2"));
}

TEST(GrayscaleTest, HappensWithProbabilityPAndLeavesGreyLevels) {
  const Pipeline pipeline("grayscale(p=0.25)", {.channels = 3});
  int count = 0;
  for (uint64_t i = 0; i < 8000; ++i) count += pipeline.plan(4, 4, 1, 0, i).color_step_count;
  EXPECT_NEAR(count, 2000, 200);  // 5 standard deviations
  const std::vector<uint8_t> red{255, 0, 0};
  const Picture picture{.pixels = red.data(), .row_stride = 3, .height = 1, .width = 1, .channels = 3};
  EXPECT_EQ(test::rendered(picture, plan_of("grayscale(p=1)", 0, 1, 1), {}, Layout::kU8Nhwc),
            (std::vector<uint8_t>{76, 76, 76}));
  EXPECT_EQ(color_refusal("grayscale(p=2)"), "transform grayscale: p is 2; expected 0 to 1");
}

TEST(TrivialAugmentTest, EveryOperationIsDrawnAsOften) {
  const Pipeline pipeline("trivial-augment", {.channels = 3});
  constexpr int kCount = 28000;
  std::map<ColorOp, int> colors;
  int geometric_count = 0, untouched_count = 0;
  for (uint64_t i = 0; i < kCount; ++i) {
    const Plan plan = pipeline.plan(64, 64, 1, 0, i);
    const Affine& m = plan.map;
    const bool is_moved = m.xx != 1 || m.xy != 0 || m.yx != 0 || m.x0 != 0 || m.y0 != 0;
    if (plan.color_step_count == 1) ++colors[plan.color_steps[0].op];
    geometric_count += is_moved;
    untouched_count += !is_moved && plan.color_step_count == 0;
  }
  EXPECT_EQ(colors.size(), 8u);
  for (const auto& [op, count] : colors) EXPECT_NEAR(count, kCount / 14, 220) << static_cast<int>(op);
  // Bin 0 of the five geometric operations moves nothing.
  EXPECT_NEAR(geometric_count, kCount * 5 / 14. * 30 / 31, 420);
  EXPECT_NEAR(untouched_count, kCount / 14. * (1 + 5 / 31.), 250);
}

TEST(PipelineTest, RefusesColoursBehindEraseAndTooManySteps) {
  EXPECT_EQ(color_refusal("erase,grayscale"),
            "transform grayscale: comes after erase, whose rectangle it would have to recolour; expected every "
            "colour transform before it");
  EXPECT_THAT(color_refusal("erase,trivial-augment"), HasSubstr("comes after erase"));
  EXPECT_EQ(color_refusal("color-jitter(brightness=1,contrast=1,saturation=1,hue=0.1),"
                          "color-jitter(brightness=1,contrast=1,saturation=1,hue=0.1),grayscale"),
            "transform grayscale: brings the list to 9 colour steps; expected at most 8");
  EXPECT_EQ(Pipeline("color-jitter(hue=0.1),trivial-augment,flip", {}).color_steps(), 2);
}

}  // namespace
}  // namespace penstock
