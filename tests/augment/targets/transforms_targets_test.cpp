// letterbox, scale-jitter and random-iou-crop: where they put the picture, and how it is drawn.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "augment/targets/boxes.h"
#include "augment/transform.h"
#include "tests/augment/pictures.h"
#include "tests/augment/refusal.h"

namespace penstock {
namespace {

using test::refusal;
using testing::HasSubstr;

/// Where the whole picture is in the output.
Box place_of(const Plan& plan, int height, int width) {
  const Box all{0, 0, static_cast<float>(width), static_cast<float>(height)};
  Plan open = plan;  // without the clip
  open.output_height = open.output_width = 1 << 20;
  const auto moved = move_boxes({&all, 1}, open);
  return moved.empty() ? Box{} : moved[0].box;
}

TEST(LetterboxTest, SizesAndMarginsAreThoseOfUltralytics) {
  // LetterBox(640) of h x w: new_unpad, then left = round((640 - width) / 2 - 0.1), top likewise.
  const std::vector<std::pair<std::array<int, 2>, Box>> cases{
      {{480, 640}, {0, 80, 640, 560}},  {{375, 500}, {0, 80, 640, 560}},  {{427, 640}, {0, 106, 640, 533}},
      {{640, 427}, {106, 0, 533, 640}}, {{100, 333}, {0, 224, 640, 416}}, {{1333, 800}, {128, 0, 512, 640}}};
  const Pipeline pipeline("letterbox(size=640)", {});
  for (const auto& [size, expected] : cases) {
    const Plan plan = pipeline.plan(size[0], size[1], 0, 0, 0);
    EXPECT_EQ(plan.output_height, 640);
    EXPECT_EQ(plan.output_width, 640);
    const Box place = place_of(plan, size[0], size[1]);
    EXPECT_NEAR(place.x0, expected.x0, 1e-3) << size[0];
    EXPECT_NEAR(place.y0, expected.y0, 1e-3) << size[0];
    EXPECT_NEAR(place.x1, expected.x1, 1e-3) << size[0];
    EXPECT_NEAR(place.y1, expected.y1, 1e-3) << size[0];
  }
}

TEST(LetterboxTest, AroundACropThereIsFillAndNotThePicture) {
  Rng rng(1, 0, 0, 0);
  const auto picture = test::noise_picture(40, 40, 1, rng);
  const Plan plan =
      Pipeline("center-crop(height=10,width=20),letterbox(size=20,filter=nearest)", {}).plan(40, 40, 0, 0, 0);
  const auto levels = test::rendered(picture.view, plan, test::kLevels, Layout::kU8Nhwc);
  size_t grey = 0;
  for (size_t i = 0; i < levels.size(); ++i) grey += static_cast<uint8_t>(levels[i]) == 114;
  EXPECT_GE(grey, 200U);
  for (size_t i = 0; i < 100; ++i) EXPECT_EQ(static_cast<uint8_t>(levels[i]), 114) << i;
}

TEST(ScaleJitterTest, IsScaleJitterAndThenFixedSizeCrop) {
  const Pipeline pipeline("scale-jitter(height=64,width=96,scale=0.4:1.8)", {});
  double least = 10, most = 0;
  for (uint64_t id = 0; id < 2000; ++id) {
    const Plan plan = pipeline.plan(50, 60, 1, 0, id);
    Rng rng(1, 0, id, 0);
    const double scale = rng.uniform(0.4, 1.8) * std::min(64 / 50.0, 96 / 60.0), place = rng.uniform();
    const int height = static_cast<int>(50 * scale), width = static_cast<int>(60 * scale);
    const int top = static_cast<int>(place * std::max(height - 64, 0));
    const int left = static_cast<int>(place * std::max(width - 96, 0));
    ASSERT_EQ(plan.output_height, 64);
    ASSERT_EQ(plan.output_width, 96);
    EXPECT_NEAR(plan.map.xx, 60.0 / width, 1e-12);
    EXPECT_NEAR(plan.map.yy, 50.0 / height, 1e-12);
    EXPECT_NEAR(plan.map.x0, left * 60.0 / width, 1e-9);
    EXPECT_NEAR(plan.map.y0, top * 50.0 / height, 1e-9);
    least = std::min(least, scale);
    most = std::max(most, scale);
  }
  EXPECT_LT(least, 0.4 * 1.28 + 0.01);
  EXPECT_GT(most, 1.8 * 1.28 - 0.01);
  EXPECT_EQ(deterministic_part("scale-jitter(size=9,scale=0.5:2),flip"), "letterbox(fill=0,size=9)");
  EXPECT_EQ(deterministic_part("scale-jitter(size=9,fill=7)"), "letterbox(size=9,fill=7)");
}

TEST(RandomIouCropTest, CutsOutAWindowWithTheMiddleOfABoxAndTheLeastOverlap) {
  const std::vector<Box> boxes{{10, 10, 30, 40}, {60, 20, 90, 50}};
  const Pipeline pipeline("random-iou-crop(iou=0.3)", {});
  std::set<std::pair<int, int>> sizes;
  for (uint64_t id = 0; id < 1000; ++id) {
    const Plan plan = pipeline.plan(Plan::identity(60, 100), 1, 0, id, boxes);
    const double x0 = plan.map.x0, y0 = plan.map.y0, x1 = x0 + plan.output_width, y1 = y0 + plan.output_height;
    if (plan.output_width == 100 && plan.output_height == 60) continue;  // no window was found
    sizes.insert({plan.output_height, plan.output_width});
    EXPECT_GE(plan.output_width, 30);
    EXPECT_GE(plan.output_height, 18);
    EXPECT_TRUE(x0 >= 0 && y0 >= 0 && x1 <= 100 && y1 <= 60);
    const double ratio = static_cast<double>(plan.output_width) / plan.output_height;
    EXPECT_TRUE(ratio >= 0.5 && ratio <= 2);
    EXPECT_EQ(plan.view, (Region{static_cast<int>(x0), static_cast<int>(y0), plan.output_width, plan.output_height}));
    double best = 0;
    for (const Box& box : boxes) {
      const double x = (box.x0 + box.x1) / 2, y = (box.y0 + box.y1) / 2;
      if (x <= x0 || x >= x1 || y <= y0 || y >= y1) continue;
      const double both = (std::min<double>(box.x1, x1) - std::max<double>(box.x0, x0)) *
                          (std::min<double>(box.y1, y1) - std::max<double>(box.y0, y0));
      const double area = (box.x1 - box.x0) * (box.y1 - box.y0);
      best = std::max(best, both / (area + (x1 - x0) * (y1 - y0) - both));
    }
    EXPECT_GE(best, 0.3);
  }
  EXPECT_GT(sizes.size(), 200U);
}

TEST(RandomIouCropTest, SeesTheBoxesWhereTheTransformsBeforeItHavePutThem) {
  const Box box{0, 0, 10, 10};  // after the flip and the EXIF orientation: at the right, see below
  const Pipeline pipeline("flip(p=1),random-iou-crop(iou=0.05)", {});
  const Plan whole = Plan::upright(6, 60, 100);  // upright it is 100 high and 60 wide
  size_t cropped = 0;
  for (uint64_t id = 0; id < 300; ++id) {
    const Plan plan = pipeline.plan(whole, 1, 0, id, {&box, 1});
    if (plan.output_width == 60 && plan.output_height == 100) continue;
    ++cropped;
    // The middle of the box is (5, 5) upright, (55, 5) flipped.
    const Affine flipped = Pipeline("flip(p=1)", {}).plan(whole, 1, 0, id).map;
    const double x = flipped.xx * 55 + flipped.xy * 5 + flipped.x0, y = flipped.yx * 55 + flipped.yy * 5 + flipped.y0;
    EXPECT_TRUE(x > plan.view.x && x < plan.view.x + plan.view.width) << id;
    EXPECT_TRUE(y > plan.view.y && y < plan.view.y + plan.view.height) << id;
  }
  EXPECT_GT(cropped, 200U);
}

TEST(RandomIouCropTest, LeavesThePictureAsItIsWithoutABoxAndWithAnOverlapOfOne) {
  const Box box{1, 1, 5, 5};
  for (const auto& [spec, boxes] : {std::pair<const char*, std::span<const Box>>{"random-iou-crop", {}},
                                    {"random-iou-crop(iou=1)", {&box, 1}},
                                    {"random-iou-crop(iou=0.99)", {&box, 1}}}) {
    const Plan plan = Pipeline(spec, {}).plan(Plan::identity(60, 100), 1, 0, 7, boxes);
    EXPECT_EQ(plan.output_width, 100) << spec;
    EXPECT_EQ(plan.map.x0, 0) << spec;
  }
  EXPECT_THAT(refusal("random-iou-crop,random-iou-crop"), HasSubstr("comes after random-iou-crop"));
  EXPECT_THAT(refusal("random-iou-crop(trials=501)"), HasSubstr("trials is 501; expected 1 to 500"));
}

}  // namespace
}  // namespace penstock
