// alternating-flip and cutout: what is drawn, and what stays from epoch to epoch.
#include <gtest/gtest.h>

#include <set>

#include "augment/transform.h"
#include "core/error.h"
#include "tests/support/testing.h"

namespace penstock {
namespace {

TEST(AlternatingFlipTest, EveryPictureIsSeenBothWaysInTwoEpochs) {
  const Pipeline pipeline("shift(pad=2),alternating-flip", {});
  int first_count = 0;
  for (uint64_t id = 0; id < 1000; ++id) {
    const auto is_mirrored = [&](uint32_t epoch) { return pipeline.plan(32, 32, 7, epoch, id).map.xx < 0; };
    first_count += is_mirrored(0);
    for (const uint32_t epoch : {0U, 1U, 2U, 7U}) EXPECT_NE(is_mirrored(epoch), is_mirrored(epoch + 1)) << id;
    EXPECT_EQ(is_mirrored(0), is_mirrored(4)) << id;
  }
  EXPECT_NEAR(first_count, 500, 60);  // 3.8 standard deviations
}

TEST(AlternatingFlipTest, OtherTransformsStillDrawAnewInEveryEpoch) {
  const Pipeline pipeline("alternating-flip,shift(pad=4)", {});
  std::set<double> places;
  for (uint32_t epoch = 0; epoch < 20; epoch += 2) places.insert(pipeline.plan(32, 32, 7, epoch, 3).map.y0);
  EXPECT_GT(places.size(), 2U);
}

TEST(AlternatingFlipTest, TheMirrorImageIsExact) {
  const Pipeline pipeline("alternating-flip", {});
  for (uint64_t id = 0; id < 20; ++id)
    for (const uint32_t epoch : {0U, 1U}) {
      const Affine map = pipeline.plan(20, 30, 7, epoch, id).map;
      EXPECT_TRUE((map.xx == 1 && map.x0 == 0) || (map.xx == -1 && map.x0 == 30));
    }
}

/// A second one mirrors back what the first has mirrored, and a random flip draws which way a picture is seen.
TEST(AlternatingFlipTest, WhatWouldUndoItIsRefused) {
  const auto refusal = [](const char* list) { return message_of(ErrorKind::kConfig, [&] { Pipeline(list, {}); }); };
  const std::string expected = ", and the two undo each other; expected one of the two";
  EXPECT_EQ(refusal("alternating-flip,normalize,alternating-flip"),
            "transform alternating-flip: comes after alternating-flip" + expected);
  EXPECT_EQ(refusal("alternating-flip,flip"), "transform flip: comes after alternating-flip" + expected);
  EXPECT_EQ(refusal("flip(p=1),shift,alternating-flip"), "transform alternating-flip: comes after flip" + expected);
  EXPECT_NO_THROW(Pipeline("alternating-flip,vflip,shift,shift", {}));
  EXPECT_NO_THROW(Pipeline("flip,flip(p=0.2)", {}));
}

TEST(CutoutTest, TheSquareLiesInsideAndHasTheMean) {
  const Pipeline pipeline("cutout(size=12)", {.channels = 3, .mean = {0.4, 0.5, 0.6}});
  std::set<int> tops;
  for (uint64_t id = 0; id < 2000; ++id) {
    const Plan plan = pipeline.plan(32, 40, 1, 0, id);
    ASSERT_EQ(plan.erased_count, 1);
    const ErasedRect& rect = plan.erased[0];
    EXPECT_EQ(rect.bottom - rect.top, 12);
    EXPECT_EQ(rect.right - rect.left, 12);
    EXPECT_TRUE(rect.top >= 0 && rect.bottom <= 32 && rect.left >= 0 && rect.right <= 40);
    EXPECT_FLOAT_EQ(rect.level[1], 127.5F);
    tops.insert(rect.top);
  }
  EXPECT_EQ(tops.size(), 21U);
  EXPECT_EQ(Pipeline("cutout(size=99)", {.channels = 1, .mean = {0.2}}).plan(8, 9, 1, 0, 0).erased[0].right, 9);
  EXPECT_EQ(message_of(ErrorKind::kConfig, [] { Pipeline("cutout(size=0)", {}); }),
            "transform cutout: size is 0; expected 1 to 65535 pixels");
}

}  // namespace
}  // namespace penstock
