// Compares the antialiasing filter with torchvision and EXIF orientations with Pillow (tests/golden/filters.json);
// tests DCT scales.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "augment/plan/footprint.h"
#include "augment/plan/plan.h"
#include "augment/render.h"
#include "tests/augment/pictures.h"
#include "tests/augment/reference.h"

namespace penstock {
namespace {

using nlohmann::json;
using test::kLevels;

const json& golden_filters() {
  static const json parsed = json::parse(std::ifstream(PENSTOCK_ROOT "/tests/golden/filters.json"));
  return parsed;
}

/// The plan that random-resized-crop makes.
Plan crop_plan(Plan plan, const Region& rect, int height, int width) {
  plan.look_only_at(rect);
  plan.resample({static_cast<double>(rect.width) / width, 0, static_cast<double>(rect.x), 0,
                 static_cast<double>(rect.height) / height, static_cast<double>(rect.y)},
                height, width);
  plan.filter = Filter::kAntialias;
  return plan;
}

/// The rendered levels, H x W x C.
std::vector<float> levels(const Picture& picture, const Plan& plan) {
  const auto bytes = test::rendered(picture, plan, kLevels, Layout::kF32Nhwc);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// The picture as it is stored under `orientation`. upright() undoes this.
test::OwnedPicture stored_under(int orientation, const Picture& upright) {
  const bool turns = orientation >= 5;
  test::OwnedPicture stored;
  stored.pixels.resize(static_cast<size_t>(upright.height) * upright.width * upright.channels);
  stored.view = upright;
  stored.view.height = turns ? upright.width : upright.height;
  stored.view.width = turns ? upright.height : upright.width;
  stored.view.row_stride = static_cast<ptrdiff_t>(stored.view.width) * upright.channels;
  const Affine map = orientation_map(orientation, stored.view.height, stored.view.width);
  for (int y = 0; y < upright.height; ++y) {
    for (int x = 0; x < upright.width; ++x) {
      const auto column = static_cast<ptrdiff_t>(map.xx * (x + 0.5) + map.xy * (y + 0.5) + map.x0);
      const auto row = static_cast<ptrdiff_t>(map.yx * (x + 0.5) + map.yy * (y + 0.5) + map.y0);
      for (int i = 0; i < upright.channels; ++i)
        stored.pixels[row * stored.view.row_stride + column * upright.channels + i] =
            upright.pixels[y * upright.row_stride + x * upright.channels + i];
    }
  }
  stored.view.pixels = stored.pixels.data();
  return stored;
}

class FilterGoldenTest : public testing::Test {
 protected:
  FilterGoldenTest() : pixels_(golden_filters()["pixels"].get<std::vector<uint8_t>>()) {
    picture_ = {.pixels = pixels_.data(),
                .row_stride = golden_filters()["width"].get<int>() * 3,
                .height = golden_filters()["height"],
                .width = golden_filters()["width"],
                .channels = 3};
  }

  static Region rect_of(const json& one) { return {one["rect"][0], one["rect"][1], one["rect"][2], one["rect"][3]}; }

  std::vector<uint8_t> pixels_;
  Picture picture_;
};

TEST_F(FilterGoldenTest, ResizedCropEqualsTorchvisionsAntialias) {
  ASSERT_EQ(golden_filters()["crops"].size(), 9u);
  for (const auto& one : golden_filters()["crops"]) {
    const Plan whole = Plan::identity(picture_.height, picture_.width);
    const auto made = levels(picture_, crop_plan(whole, rect_of(one), one["height"], one["width"]));
    const auto expected = one["expected"].get<std::vector<float>>();
    ASSERT_EQ(made.size(), expected.size());
    for (size_t i = 0; i < made.size(); ++i) ASSERT_NEAR(made[i], expected[i], 0.06) << one["rect"] << " at " << i;
  }
}

TEST_F(FilterGoldenTest, EveryOrientationGivesTheSameResizedCrop) {
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const auto stored = stored_under(orientation, picture_);
    const Plan upright = Plan::upright(orientation, stored.view.height, stored.view.width);
    ASSERT_EQ(upright.output_height, picture_.height);
    for (const auto& one : golden_filters()["crops"]) {
      const auto made = levels(stored.view, crop_plan(upright, rect_of(one), one["height"], one["width"]));
      const auto expected = one["expected"].get<std::vector<float>>();
      for (size_t i = 0; i < made.size(); ++i)
        ASSERT_NEAR(made[i], expected[i], 0.06) << "orientation " << orientation << " " << one["rect"] << " at " << i;
    }
  }
}

TEST_F(FilterGoldenTest, BilinearIsTheSameWherePicturesGrow) {
  Plan plan = crop_plan(Plan::identity(picture_.height, picture_.width), {3, 5, 20, 18}, 31, 44);
  const auto antialiased = levels(picture_, plan);
  plan.filter = Filter::kBilinear;
  const auto bilinear = levels(picture_, plan);
  for (size_t i = 0; i < bilinear.size(); ++i) ASSERT_NEAR(antialiased[i], bilinear[i], 0.06) << i;
}

TEST_F(FilterGoldenTest, BilinearIsTakenToTheBitWherePicturesAreTurned) {
  Plan plan = Plan::identity(picture_.height, picture_.width);
  plan.resample({1.5, 0.3, 0, -0.3, 1.5, 9}, 24, 30);
  plan.filter = Filter::kAntialias;
  const auto antialiased = levels(picture_, plan);
  plan.filter = Filter::kBilinear;
  EXPECT_EQ(antialiased, levels(picture_, plan));
}

TEST(OrientationTest, UprightIsPillowsExifTranspose) {
  std::vector<uint8_t> stored(12);
  for (int i = 0; i < 12; ++i) stored[i] = static_cast<uint8_t>(i);
  const Picture picture{.pixels = stored.data(), .row_stride = 4, .height = 3, .width = 4, .channels = 1};
  ASSERT_EQ(golden_filters()["orientations"].size(), 10u);
  for (const auto& one : golden_filters()["orientations"]) {
    Plan plan = Plan::upright(one["orientation"], 3, 4);
    ASSERT_EQ(plan.output_height, one["height"].get<int>()) << one["orientation"];
    ASSERT_EQ(plan.output_width, one["width"].get<int>()) << one["orientation"];
    for (const Filter filter : {Filter::kNearest, Filter::kBilinear, Filter::kAntialias}) {
      plan.filter = filter;
      EXPECT_EQ(test::rendered(picture, plan, {}, Layout::kU8Nhwc), one["expected"].get<std::vector<uint8_t>>())
          << "orientation " << one["orientation"] << ", filter " << static_cast<int>(filter);
    }
  }
}

TEST(ViewTest, WhatLiesBehindItTakesFill) {
  const std::vector<uint8_t> stored{10, 20, 30, 40, 50, 60};
  const Picture picture{.pixels = stored.data(), .row_stride = 6, .height = 1, .width = 6, .channels = 1};
  Plan plan = Plan::identity(1, 6);
  plan.look_only_at({2, 0, 3, 1});
  plan.fill = {7, 7, 7};
  for (const Filter filter : {Filter::kNearest, Filter::kBilinear, Filter::kAntialias}) {
    plan.filter = filter;
    EXPECT_EQ(test::rendered(picture, plan, {}, Layout::kU8Nhwc), (std::vector<uint8_t>{7, 7, 30, 40, 50, 7}));
  }
  EXPECT_EQ(footprint(plan), (Region{2, 0, 3, 1}));
}

TEST(ViewTest, IsInPixelsOfTheStoredPictureAndOnlyShrinks) {
  Plan plan = Plan::upright(6, 40, 60);  // 60 high, 40 wide; x = row, y = 40 - column
  plan.look_only_at({5, 10, 20, 30});
  EXPECT_EQ(plan.view, (Region{10, 15, 30, 20}));
  plan.look_only_at({0, 20, 40, 40});
  EXPECT_EQ(plan.view, (Region{20, 15, 20, 20}));
  plan.resample({0.9, 0.1, 0, -0.1, 0.9, 0}, 10, 10);
  plan.look_only_at({0, 0, 1, 1});
  EXPECT_EQ(plan.view, (Region{20, 15, 20, 20}));
}

Plan resized(int height, int width, double step) {
  Plan plan = Plan::identity(height, width);
  plan.resample(Affine::scaling(step, step), static_cast<int>(height / step), static_cast<int>(width / step));
  plan.filter = Filter::kAntialias;
  return plan;
}

TEST(DctScaleTest, ABoxSeesThePixelsOfTheWholePicture) {
  Plan plan = resized(400, 400, 8);
  for (const Filter filter : {Filter::kAntialiasHamming, Filter::kAntialiasBicubic, Filter::kAntialiasLanczos}) {
    plan.filter = filter;
    EXPECT_EQ(dct_scale(plan), 1);
  }
  plan.filter = Filter::kAntialiasBox;
  EXPECT_EQ(dct_scale(plan), 8);
}

TEST(DctScaleTest, KeepsAPixelForAPixelInEveryDirection) {
  for (const auto& [step, scale] : {std::pair(0.5, 8), {1.0, 8}, {1.99, 8}, {2.0, 4}, {3.9, 4}, {4.0, 2}, {8.5, 1}})
    EXPECT_EQ(dct_scale(resized(400, 400, step)), scale) << step;
  Plan plan = Plan::identity(400, 400);
  plan.resample({0, 9, 0, -2.5, 0, 400}, 30, 30);
  EXPECT_EQ(dct_scale(plan), 4);
  const double c = 4 * std::cos(0.6), s = 4 * std::sin(0.6);
  plan.map = {c, -s, 0, s, c, 0};
  EXPECT_EQ(dct_scale(plan), 2);
  plan.map = {4, 8, 0, 0, 4, 0};  // sheared: the smaller singular value is 1.66
  EXPECT_EQ(dct_scale(plan), 8);
  plan.map = {0, 0, 0, 0, 0, 0};
  EXPECT_EQ(dct_scale(plan), 8);
}

TEST(DctScaleTest, PlanOfTheSmallerPictureLooksAtTheSamePlaces) {
  Plan plan = Plan::identity(403, 601);
  plan.look_only_at({101, 50, 333, 222});
  plan.resample({2.5, 0, 101, 0, 2.5, 50}, 88, 133);
  const Plan half = at_dct_scale(plan, 4);
  EXPECT_EQ(half.input_height, 202);
  EXPECT_EQ(half.input_width, 301);
  EXPECT_EQ(half.view, (Region{50, 25, 167, 111}));
  EXPECT_DOUBLE_EQ(half.map.xx, 1.25);
  EXPECT_DOUBLE_EQ(half.map.x0, 50.5);
  EXPECT_EQ(half.output_width, 133);
  EXPECT_EQ(at_dct_scale(plan, 8).view, plan.view);
}

TEST(DctScaleTest, AveragedPictureComesOutAsTheWholeOneDoes) {
  // Decoding at half size takes the mean of 2 x 2 pixels, which does not change a gradient.
  const int height = 120, width = 160;
  std::vector<uint8_t> whole(static_cast<size_t>(height) * width), half(whole.size() / 4);
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) whole[static_cast<size_t>(y) * width + x] = static_cast<uint8_t>(x + y / 2);
  for (int y = 0; y < height / 2; ++y)
    for (int x = 0; x < width / 2; ++x) half[static_cast<size_t>(y) * width / 2 + x] = static_cast<uint8_t>(2 * x + y);
  const Plan plan = crop_plan(Plan::identity(height, width), {11, 7, 140, 100}, 40, 50);
  ASSERT_EQ(dct_scale(plan), 4);
  const auto expected = levels({whole.data(), width, height, width, 1}, plan);
  const auto made = levels({half.data(), width / 2, height / 2, width / 2, 1}, at_dct_scale(plan, 4));
  for (size_t i = 0; i < made.size(); ++i) ASSERT_NEAR(made[i], expected[i], 1) << i;
}

}  // namespace
}  // namespace penstock
