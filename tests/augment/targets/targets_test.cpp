// Boxes, key points, masks and polygons: rules, borders, orientations, and that all of them agree with each other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "augment/targets/boxes.h"
#include "augment/targets/keypoints.h"
#include "augment/targets/masks.h"
#include "augment/targets/on_picture.h"
#include "augment/targets/polygons.h"
#include "augment/transform.h"
#include "tests/augment/pictures.h"
#include "tests/augment/refusal.h"

namespace penstock {
namespace {

using testing::ElementsAre;

size_t output_count(const Plan& plan) {
  return static_cast<size_t>(plan.output_height) * static_cast<size_t>(plan.output_width);
}

/// A mask of the picture with 1 in a box of whole pixels.
std::vector<uint8_t> drawn(const Box& box, int height, int width) {
  std::vector<uint8_t> mask(static_cast<size_t>(height) * static_cast<size_t>(width));
  for (int y = static_cast<int>(box.y0); y < static_cast<int>(box.y1); ++y)
    for (int x = static_cast<int>(box.x0); x < static_cast<int>(box.x1); ++x)
      mask[static_cast<size_t>(y * width + x)] = 1;
  return mask;
}

std::vector<uint8_t> moved(const std::vector<uint8_t>& mask, const Plan& plan, MaskBorder border, uint8_t fill = 0) {
  std::vector<uint8_t> output(output_count(plan));
  move_mask<uint8_t>(mask, plan, fill, border, output);
  return output;
}

/// The pixels with a 1 as a box; nothing without any.
std::optional<Box> hull_of(const std::vector<uint8_t>& mask, int width) {
  Box hull{1e9F, 1e9F, -1, -1};
  for (size_t i = 0; i < mask.size(); ++i) {
    if (mask[i] == 0) continue;
    const auto x = static_cast<float>(i % static_cast<size_t>(width)),
               y = static_cast<float>(i / static_cast<size_t>(width));
    hull = {std::min(hull.x0, x), std::min(hull.y0, y), std::max(hull.x1, x + 1), std::max(hull.y1, y + 1)};
  }
  return hull.x1 < 0 ? std::nullopt : std::optional(hull);
}

/// A list of one to four random geometric transforms, all that there are.
std::string random_geometry(Rng& rng) {
  const std::vector<std::string> all{"flip",
                                     "vflip",
                                     "alternating-flip",
                                     "rotate(degrees=180)",
                                     "affine(degrees=40,translate=0.2,scale=0.6:1.6)",
                                     "affine(shear=20:20:-10:10)",
                                     "trivial-augment",
                                     "rand-augment(ops=2,magnitude=15,std=3)",
                                     "auto-augment",
                                     "resize(size=31)",
                                     "resize(height=50,width=37)",
                                     "center-crop(size=28)",
                                     "crop(size=24,pad=3)",
                                     "shift(pad=5)",
                                     "random-resized-crop(size=32)",
                                     "letterbox(height=40,width=56)",
                                     "scale-jitter(size=48)",
                                     "random-iou-crop(ratio=0.2:5)"};
  std::string spec;
  const int count = rng.between(1, 4);
  for (int i = 0; i < count; ++i) {
    const auto& one = all[static_cast<size_t>(rng.between(0, static_cast<int>(all.size()) - 1))];
    const std::string name = one.substr(0, one.find('('));
    const bool is_flip = name == "flip" || name == "alternating-flip";
    if (spec.find(name) == std::string::npos && !(is_flip && spec.find("flip") != std::string::npos))
      spec += (spec.empty() ? "" : ",") + one;
  }
  if (rng.chance(0.1)) spec += ",crop(size=20,pad=4,border=reflect)";
  return spec;
}

Box random_box(int height, int width, Rng& rng) {
  const int x0 = rng.between(0, width - 1), y0 = rng.between(0, height - 1);
  const int x1 = rng.between(x0 + 1, width), y1 = rng.between(y0 + 1, height);
  return {static_cast<float>(x0), static_cast<float>(y0), static_cast<float>(x1), static_cast<float>(y1)};
}

/// Whether the map turns, mirrors and scales alike in all directions.
bool is_similarity(const Affine& m) {
  return std::fabs(m.xx * m.xy + m.yx * m.yy) < 1e-9 &&
         std::fabs(m.xx * m.xx + m.yx * m.yx - m.xy * m.xy - m.yy * m.yy) < 1e-9;
}

TEST(TargetsTest, TheHullOfABoxDrawnAsAMaskIsTheBoxUnderTenThousandPlans) {
  Rng rng(11, 0, 0, 0);
  size_t compared = 0, turned = 0, gone = 0, mirrored_borders = 0;
  for (uint64_t id = 0; id < 10'000; ++id) {
    const int height = rng.between(8, 60), width = rng.between(8, 60), orientation = rng.between(1, 8);
    const Box box = random_box(height, width, rng);  // of the upright picture
    const bool turns = orientation >= 5;
    const int stored_height = turns ? width : height, stored_width = turns ? height : width;
    const Plan whole = Plan::upright(orientation, stored_height, stored_width);
    const std::string spec = random_geometry(rng);
    const Plan plan = Pipeline(spec, {}).plan(whole, 5, static_cast<uint32_t>(id % 2), id, {&box, 1});
    const auto mask = as_stored<uint8_t>(drawn(box, height, width), orientation, stored_height, stored_width);
    const auto hull = hull_of(moved(mask, plan, MaskBorder::kFill), plan.output_width);
    const auto boxes = move_boxes({&box, 1}, on_upright(plan, orientation));
    const std::string what = concat("plan ", id, ", orientation ", orientation, ", ", spec);
    mirrored_borders += plan.border != Border::kFill;
    if (boxes.empty()) {
      ASSERT_FALSE(hull) << what;
      ++gone;
      continue;
    }
    const Box& there = boxes[0].box;
    ASSERT_GT(boxes[0].share, 0) << what;
    ASSERT_LE(boxes[0].share, 1) << what;
    if (hull) {
      ASSERT_GE(hull->x0, there.x0 - 1) << what;
      ASSERT_GE(hull->y0, there.y0 - 1) << what;
      ASSERT_LE(hull->x1, there.x1 + 1) << what;
      ASSERT_LE(hull->y1, there.y1 + 1) << what;
    }
    // The mask may miss a box of less than a pixel, and the thin corner of one that a shear has made pointed. A turned
    // box that is cut by the output has corners which the hull covers and the mask does not.
    const bool are_kept = axes_of(plan.map).are_kept;
    const bool is_whole = boxes[0].share > 1 - 1e-6F && std::min(there.x1 - there.x0, there.y1 - there.y0) > 6;
    if (there.x1 - there.x0 < 1.01F || there.y1 - there.y0 < 1.01F) continue;
    if (!are_kept && !(is_whole && is_similarity(plan.map) && box.x1 - box.x0 > 5 && box.y1 - box.y0 > 5 &&
                       std::fabs(plan.map.xx) + std::fabs(plan.map.xy) < 1.5))
      continue;
    ASSERT_TRUE(hull) << what;
    ASSERT_LE(hull->x0, there.x0 + 1) << what;
    ASSERT_LE(hull->y0, there.y0 + 1) << what;
    ASSERT_GE(hull->x1, there.x1 - 1) << what;
    ASSERT_GE(hull->y1, there.y1 - 1) << what;
    ++(are_kept ? compared : turned);
  }
  EXPECT_GT(compared, 2500U);
  EXPECT_GT(turned, 50U);
  EXPECT_GT(gone, 200U);
  EXPECT_GT(mirrored_borders, 400U);
}

TEST(TargetsTest, APictureWhoseLevelsAreAMasksValuesHasItsPixels) {
  Rng rng(12, 0, 0, 0);
  for (uint64_t id = 0; id < 3000; ++id) {
    const int height = rng.between(1, 40), width = rng.between(1, 40), orientation = rng.between(1, 8);
    const auto picture = test::noise_picture(height, width, 1, rng);  // as stored
    Plan plan = Pipeline(random_geometry(rng), {}).plan(Plan::upright(orientation, height, width), 3, 0, id);
    plan.filter = Filter::kNearest;
    plan.color_step_count = 0;  // of trivial-augment, rand-augment and auto-augment
    const auto levels = test::rendered(picture.view, plan, test::kLevels, Layout::kU8Nhwc);
    const std::vector<uint16_t> wide(picture.pixels.begin(), picture.pixels.end());
    std::vector<uint16_t> wide_output(output_count(plan));
    move_mask<uint16_t>(wide, plan, static_cast<uint16_t>(plan.fill[0]), MaskBorder::kCopied, wide_output);
    const auto mask = moved(picture.pixels, plan, MaskBorder::kCopied, static_cast<uint8_t>(plan.fill[0]));
    ASSERT_EQ(std::memcmp(mask.data(), levels.data(), mask.size()), 0) << "plan " << id;
    ASSERT_TRUE(std::equal(mask.begin(), mask.end(), wide_output.begin())) << "plan " << id;
  }
}

TEST(TargetsTest, ColoursAndErasedRectanglesDoNotTouchMasks) {
  Rng rng(13, 0, 0, 0);
  const auto picture = test::noise_picture(20, 30, 1, rng);
  const Plan plain = Pipeline("flip(p=1)", {}).plan(20, 30, 1, 0, 0);
  const Plan colored =
      Pipeline("flip(p=1),color-jitter(brightness=0.4,contrast=0.9),erase(p=1,value=1)", {}).plan(20, 30, 1, 0, 0);
  EXPECT_EQ(colored.erased_count, 1);
  EXPECT_EQ(moved(picture.pixels, colored, MaskBorder::kCopied), moved(picture.pixels, plain, MaskBorder::kCopied));
}

TEST(TargetsTest, ABorderOfCopiesHasNoObjects) {
  const Box box{0, 0, 4, 4};
  Plan plan = Plan::identity(10, 10);
  plan.resample(Affine::translation(-3, 0), 10, 10);
  plan.repeat_around({3, 0, 10, 10}, Border::kSymmetric);
  const auto mask = drawn(box, 10, 10);
  EXPECT_EQ(*hull_of(moved(mask, plan, MaskBorder::kFill), 10), (Box{3, 0, 7, 4}));
  EXPECT_EQ(*hull_of(moved(mask, plan, MaskBorder::kCopied), 10), (Box{0, 0, 7, 4}));
  EXPECT_EQ(move_boxes({&box, 1}, plan)[0].box, (Box{3, 0, 7, 4}));
}

TEST(MoveBoxesTest, TheShareIsWhatIsInsideOfTheWholeHull) {
  const Box box{10, 10, 30, 20};
  Plan plan = Plan::identity(40, 40);
  plan.resample(Affine::translation(20, 0), 40, 20);
  const auto boxes = move_boxes({&box, 1}, plan);
  ASSERT_EQ(boxes.size(), 1U);
  EXPECT_EQ(boxes[0].box, (Box{0, 10, 10, 20}));
  EXPECT_EQ(boxes[0].share, 0.5F);
}

TEST(MoveBoxesTest, TheViewEndsABoxBeforeTheOutputDoes) {
  const Box box{0, 0, 40, 40};
  Plan plan = Plan::identity(40, 40);
  plan.look_only_at({10, 0, 20, 40});
  const auto boxes = move_boxes({&box, 1}, plan);
  EXPECT_EQ(boxes[0].box, (Box{10, 0, 30, 40}));
  EXPECT_EQ(boxes[0].share, 0.5F);
}

TEST(MoveBoxesTest, ABoxThatEqualsALimitStaysAndOneBelowGoes) {
  const std::vector<Box> boxes{{0, 0, 10, 10}, {12, 0, 20, 10}, {15, 15, 25, 25}, {40, 40, 45, 45}};
  Plan plan = Plan::identity(50, 50);
  plan.resample({}, 20, 20);  // the third has a quarter inside, the fourth nothing
  const auto left = [&](const BoxRules& rules) {
    std::vector<int64_t> indices;
    for (const auto& box : move_boxes(boxes, plan, rules)) indices.push_back(box.index);
    return indices;
  };
  EXPECT_THAT(left({}), ElementsAre(0, 1, 2));
  EXPECT_THAT(left({.min_share = 0.25}), ElementsAre(0, 1, 2));
  EXPECT_THAT(left({.min_share = 0.2501}), ElementsAre(0, 1));
  EXPECT_THAT(left({.min_area = 80}), ElementsAre(0, 1));
  EXPECT_THAT(left({.min_area = 80.1}), ElementsAre(0));
  EXPECT_THAT(left({.min_size = 8}), ElementsAre(0, 1));
  EXPECT_THAT(left({.min_size = 8.1}), ElementsAre(0));
  EXPECT_THAT(left({.needs_center = true}), ElementsAre(0, 1));  // that of the third is on the corner
}

TEST(MoveBoxesTest, BoxesWithoutAnAreaAndSingularMapsLeaveNothing) {
  const std::vector<Box> boxes{{5, 5, 5, 9}, {5, 5, 9, 5}};
  EXPECT_TRUE(move_boxes(boxes, Plan::identity(20, 20)).empty());
  const Box box{0, 0, 20, 20};
  Plan plan = Plan::identity(20, 20);
  plan.resample({1, 1, 0, 1, 1, 0}, 20, 20);
  EXPECT_TRUE(move_boxes({&box, 1}, plan).empty());
  std::vector<KeyPoint> points{{3, 4, 2}};
  move_keypoints(points, 1, plan, {});
  EXPECT_EQ(points[0], KeyPoint{});
  std::vector<uint8_t> output(output_count(plan));
  draw_polygon(std::vector<Vertex>{{0, 0}, {20, 0}, {20, 20}}, plan, output);
  EXPECT_FALSE(hull_of(output, 20));
}

TEST(MoveKeypointsTest, PairsChangePlacesWhereThePictureIsMirroredAndOnlyThere) {
  const std::vector<std::pair<int, int>> hands{{1, 2}};
  const std::vector<KeyPoint> given{{5, 1, 2}, {2, 3, 1}, {8, 3, 2}};
  const auto after = [&](const char* spec) {
    std::vector<KeyPoint> points = given;
    move_keypoints(points, 3, Pipeline(spec, {}).plan(10, 10, 0, 0, 0), hands);
    return points;
  };
  EXPECT_THAT(after("flip(p=1)"), ElementsAre(KeyPoint{5, 1, 2}, KeyPoint{2, 3, 2}, KeyPoint{8, 3, 1}));
  EXPECT_THAT(after("flip(p=1),vflip(p=1)"), ElementsAre(KeyPoint{5, 9, 2}, KeyPoint{8, 7, 1}, KeyPoint{2, 7, 2}));
  EXPECT_THAT(after("center-crop(size=4)"), ElementsAre(KeyPoint{2, -2, 0}, KeyPoint{-1, 0, 0}, KeyPoint{5, 0, 0}));
}

TEST(MoveKeypointsTest, APointThatIsNotAnnotatedStaysAtTheOriginAndChangesPlacesAsOthersDo) {
  const std::vector<std::pair<int, int>> hands{{0, 1}};
  std::vector<KeyPoint> points{{2, 3, 2}, {}, {0, 3, 0}, {}};
  move_keypoints(points, 2, Pipeline("flip(p=1)", {}).plan(10, 10, 0, 0, 0), hands);
  EXPECT_THAT(points, ElementsAre(KeyPoint{}, KeyPoint{8, 3, 2}, KeyPoint{}, KeyPoint{10, 3, 0}));
}

TEST(MoveKeypointsTest, APointOnTheBorderIsInsideOnBothSidesOfAFlip) {
  for (const char* spec : {"", "flip(p=1)"}) {
    std::vector<KeyPoint> points{{0, 0, 2}, {10, 10, 2}};
    move_keypoints(points, 1, Pipeline(spec, {}).plan(10, 10, 0, 0, 0), {});
    EXPECT_EQ(points[0].v + points[1].v, 4) << spec;
  }
}

TEST(DrawPolygonTest, APolygonOfWholePixelsIsTheMaskOfItsBoxUnderEveryPlan) {
  Rng rng(17, 0, 0, 0);
  size_t drawn_count = 0;
  for (uint64_t id = 0; id < 3000; ++id) {
    const int height = rng.between(8, 60), width = rng.between(8, 60);
    const Box box = random_box(height, width, rng);
    const Plan plan = Pipeline(random_geometry(rng), {}).plan(height, width, 2, 0, id);
    const std::vector<Vertex> corners{{box.x0, box.y0}, {box.x1, box.y0}, {box.x1, box.y1}, {box.x0, box.y1}};
    std::vector<uint8_t> polygon(output_count(plan));
    draw_polygon(corners, plan, polygon);
    const auto mask = moved(drawn(box, height, width), plan, MaskBorder::kFill);
    size_t differing = 0;
    for (size_t i = 0; i < mask.size(); ++i) {
      if (mask[i] == polygon[i]) continue;
      ++differing;  // only where a centre is on an edge of the box or the view, but for rounding
      const double column = static_cast<double>(i % static_cast<size_t>(plan.output_width)) + 0.5;
      const double row = static_cast<double>(i / static_cast<size_t>(plan.output_width)) + 0.5;
      const double x = plan.map.xx * column + plan.map.xy * row + plan.map.x0;
      const double y = plan.map.yx * column + plan.map.yy * row + plan.map.y0;
      const double nearest =
          std::min({std::fabs(x - box.x0), std::fabs(x - box.x1), std::fabs(y - box.y0), std::fabs(y - box.y1),
                    std::fabs(x - plan.view.x), std::fabs(y - plan.view.y),
                    std::fabs(x - plan.view.x - plan.view.width), std::fabs(y - plan.view.y - plan.view.height)});
      ASSERT_LT(nearest, 1e-4) << "plan " << id;
    }
    drawn_count += hull_of(mask, plan.output_width).has_value();
    ASSERT_LE(differing, mask.size() / 4);
  }
  EXPECT_GT(drawn_count, 1500U);
}

TEST(DrawPolygonTest, NeighboursShareNoPixelAndLeaveNoneOut) {
  const std::vector<Vertex> left{{0, 0}, {7.3F, 0}, {3.1F, 12}, {0, 12}},
      right{{7.3F, 0}, {15, 0}, {15, 12}, {3.1F, 12}};
  const Plan plan = Plan::identity(12, 15);
  std::vector<uint8_t> a(output_count(plan)), b(output_count(plan));
  draw_polygon(left, plan, a);
  draw_polygon(right, plan, b);
  for (size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a[i] + b[i], 1);
}

TEST(OnPictureTest, TheUprightPlanShowsTheSamePixelsAsTheStoredOne) {
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const Plan whole = Plan::upright(orientation, 20, 30);
    const Plan upright = on_upright(whole, orientation);
    EXPECT_EQ(upright.map.xx, 1) << orientation;
    EXPECT_EQ(upright.map.x0, 0) << orientation;
    EXPECT_EQ(upright.map.yy, 1) << orientation;
    EXPECT_EQ(upright.view, (Region{0, 0, whole.output_width, whole.output_height})) << orientation;
    EXPECT_EQ(upright.input_width, whole.output_width) << orientation;
  }
}

}  // namespace
}  // namespace penstock
