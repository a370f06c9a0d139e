// Plan: composition, the order of colour steps and erased rectangles, and footprints.
#include "augment/plan/plan.h"

#include <gtest/gtest.h>

#include <cmath>

#include "augment/plan/affine_map.h"
#include "augment/plan/angle.h"
#include "augment/plan/footprint.h"
#include "core/error.h"
#include "tests/augment/pictures.h"

namespace penstock {
namespace {

struct Point {
  double x, y;
};

Point apply(const Affine& m, Point p) { return {m.xx * p.x + m.xy * p.y + m.x0, m.yx * p.x + m.yy * p.y + m.y0}; }

Affine random_affine(Rng& rng) {
  const auto entry = [&] { return rng.uniform(-2, 2); };
  return {entry(), entry(), 10 * entry(), entry(), entry(), 10 * entry()};
}

TEST(PlanTest, AfterAppliesTheFirstMapFirst) {
  Rng rng(1, 0, 0, 0);
  for (int trial = 0; trial < 50; ++trial) {
    const Affine first = random_affine(rng), second = random_affine(rng);
    const Point p{rng.uniform(-9, 9), rng.uniform(-9, 9)};
    const Point composed = apply(second.after(first), p), chained = apply(second, apply(first, p));
    EXPECT_NEAR(composed.x, chained.x, 1e-12);
    EXPECT_NEAR(composed.y, chained.y, 1e-12);
  }
}

TEST(PlanTest, ResampleComposesOnTheOutputSide) {
  Rng rng(2, 0, 0, 0);
  const Affine a = random_affine(rng), b = random_affine(rng), c = random_affine(rng);
  Plan plan = Plan::identity(20, 30);
  plan.resample(a, 10, 11);
  plan.resample(b, 12, 13);
  plan.resample(c, 14, 15);
  // The last edit's output goes through c, then b, then a, into the stored picture.
  const Point p{3.5, 7.25};
  const Point expected = apply(a, apply(b, apply(c, p)));
  EXPECT_NEAR(apply(plan.map, p).x, expected.x, 1e-11);
  EXPECT_NEAR(apply(plan.map, p).y, expected.y, 1e-11);
  EXPECT_EQ(plan.output_height, 14);
  EXPECT_EQ(plan.output_width, 15);
  EXPECT_EQ(plan.input_height, 20);
  EXPECT_EQ(plan.input_width, 30);
}

TEST(PlanTest, ABorderIsOneAndCopiesWhatTheOutputShows) {
  const auto with = [](const Region& picture, Border border) {
    Plan plan = Plan::identity(8, 9);
    plan.repeat_around(picture, border);
    return plan;
  };
  Plan plan = with({4, -2, 20, 7}, Border::kReflect);  // four columns on the left, three rows below
  plan.resample({-1, 0, 9, 0, 1, 0}, 8, 9);
  EXPECT_EQ(plan.inside, (Region{-15, -2, 20, 7}));
  plan.resample({1, 0, 0, 0, -1, 8}, 8, 9);
  EXPECT_EQ(plan.inside, (Region{-15, 3, 20, 7}));
  EXPECT_THROW(plan.repeat_around({0, 0, 8, 8}, Border::kEdge), Error);
  EXPECT_THROW(plan.resample(Affine::translation(1, 0), 8, 9), Error);
  EXPECT_THROW(plan.resample(Affine::scaling(2, 2), 8, 9), Error);
  EXPECT_THROW(plan.resample({}, 8, 8), Error);
  with({4, 0, 5, 8}, Border::kSymmetric);
  with({8, 0, 20, 8}, Border::kEdge);
  EXPECT_THROW(with({5, 0, 20, 8}, Border::kReflect), Error);
  EXPECT_THROW(with({5, 0, 20, 8}, Border::kSymmetric), Error);
  EXPECT_THROW(with({9, 0, 20, 8}, Border::kEdge), Error);
  EXPECT_THROW(with({0, -9, 9, 5}, Border::kEdge), Error);
  EXPECT_THROW(with({0, -9, 9, 13}, Border::kReflect), Error);
  EXPECT_THROW(with({3, 3, 0, 2}, Border::kEdge), Error);
  EXPECT_THROW(with({0, 0, 9, 8}, Border::kFill), Error);
}

TEST(PlanTest, OneResampleOfWholePixelEditsEqualsOneEditAfterTheOther) {
  Rng rng(3, 0, 0, 0);
  const auto picture = test::noise_picture(9, 12, 3, rng);
  Plan flip = Plan::identity(9, 12), crop = Plan::identity(9, 12), both = Plan::identity(9, 12);
  flip.resample({-1, 0, 12, 0, 1, 0}, 9, 12);
  crop.resample(Affine::translation(2, 1), 5, 6);
  both.resample({-1, 0, 12, 0, 1, 0}, 9, 12);
  both.resample(Affine::translation(2, 1), 5, 6);
  auto flipped = test::rendered(picture.view, flip, {}, Layout::kU8Nhwc);
  Picture between = picture.view;
  between.pixels = flipped.data();
  EXPECT_EQ(test::rendered(picture.view, both, {}, Layout::kU8Nhwc),
            test::rendered(between, crop, {}, Layout::kU8Nhwc));
}

TEST(PlanTest, RecolorAppliesTheLaterEditLast) {
  Plan plan = Plan::identity(1, 1);
  plan.recolor({{{0, 1, 0, 10}, {1, 0, 0, 0}, {0, 0, 1, 0}}});  // swaps red and green, then adds 10 to red
  plan.recolor({{{2, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 5}}});
  EXPECT_EQ(plan.color[0], (std::array<float, 4>{0, 2, 0, 20}));
  EXPECT_EQ(plan.color[1], (std::array<float, 4>{1, 0, 0, 0}));
  EXPECT_EQ(plan.color[2], (std::array<float, 4>{0, 0, 1, 5}));
}

TEST(PlanTest, RecolorReachesWhatWasErasedBeforeItAndNotAfter) {
  Plan plan = Plan::identity(4, 4);
  plan.erase({0, 0, 1, 1, {10, 20, 30}});
  plan.recolor({{{0, 0, 1, 0}, {0, 2, 0, 0}, {1, 0, 0, 1}}});
  plan.erase({1, 1, 2, 2, {10, 20, 30}});
  EXPECT_EQ(plan.erased[0].level, (std::array<float, 3>{30, 40, 11}));
  EXPECT_EQ(plan.erased[1].level, (std::array<float, 3>{10, 20, 30}));
}

TEST(PlanTest, EraseBeyondTheLimitIsABug) {
  Plan plan = Plan::identity(4, 4);
  for (int i = 0; i < Plan::kMaxErased; ++i) plan.erase({});
  EXPECT_THROW(plan.erase({}), Error);
}

TEST(FootprintTest, IdentityIsTheWholePicture) { EXPECT_EQ(footprint(Plan::identity(7, 9)), (Region{0, 0, 9, 7})); }

TEST(FootprintTest, CropIsTheCrop) {
  Plan plan = Plan::identity(100, 200);
  plan.resample(Affine::translation(50, 20), 30, 40);
  EXPECT_EQ(footprint(plan), (Region{50, 20, 40, 30}));
}

TEST(FootprintTest, BilinearAddsAMarginAndIsClipped) {
  Plan plan = Plan::identity(100, 200);
  plan.filter = Filter::kBilinear;
  plan.resample({0.5, 0, 50, 0, 0.5, 80}, 40, 40);  // centres at x 50.25..69.75, y 80.25..99.75
  EXPECT_EQ(footprint(plan), (Region{49, 79, 22, 21}));
}

TEST(FootprintTest, PlanThatLooksOutsideHasNone) {
  Plan plan = Plan::identity(10, 10);
  plan.resample(Affine::translation(10, 0), 10, 10);
  EXPECT_EQ(footprint(plan), Region{});
  plan = Plan::identity(10, 10);
  plan.resample(Affine::translation(0, -10), 10, 10);
  EXPECT_EQ(footprint(plan), Region{});
}

TEST(SinCosTest, AgreesWithTheLibraryAndIsExactAtRightAngles) {
  for (double degrees = -725; degrees < 725; degrees += 0.37) {
    const auto [sin, cos] = detail::sin_cos(degrees);
    EXPECT_NEAR(sin, std::sin(degrees * M_PI / 180), 4e-15) << degrees;
    EXPECT_NEAR(cos, std::cos(degrees * M_PI / 180), 4e-15) << degrees;
  }
  EXPECT_EQ(detail::sin_cos(90).sin, 1);
  EXPECT_EQ(detail::sin_cos(90).cos, 0);
  EXPECT_EQ(detail::sin_cos(-180).cos, -1);
  EXPECT_EQ(detail::sin_cos(270).sin, -1);
}

TEST(AffineMapTest, KeepsTheCentreAndUndoesTheForwardMap) {
  // The map from input to output, in torchvision's notation: T * C * R(10 degrees) * S(2) * C^-1.
  const Affine map = affine_map({.degrees = 10, .translate_x = 3, .translate_y = -1, .scale = 2}, 20, 30);
  const double c = std::cos(M_PI / 18) * 2, s = std::sin(M_PI / 18) * 2;
  const Point p{21, 4}, forward{c * (p.x - 15) - s * (p.y - 10) + 15 + 3, s * (p.x - 15) + c * (p.y - 10) + 10 - 1};
  EXPECT_NEAR(apply(map, forward).x, p.x, 1e-12);
  EXPECT_NEAR(apply(map, forward).y, p.y, 1e-12);
}

}  // namespace
}  // namespace penstock
