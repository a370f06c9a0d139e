// SizeSchedule: what it parses, whose size it replaces, and what it refuses.
#include "augment/size_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "tests/support/testing.h"

namespace penstock {
namespace {

using testing::HasSubstr;

TEST(SizeScheduleTest, AnEpochHasTheSizeOfTheLastStageThatHasBegun) {
  const SizeSchedule schedule("--size-schedule", "0:128,6:160,12:224");
  const auto size = [&](int64_t epoch) { return schedule.size_of(epoch); };
  EXPECT_EQ(std::vector<int>({size(0), size(5), size(6), size(11), size(12), size(1000)}),
            std::vector<int>({128, 128, 160, 160, 224, 224}));
  EXPECT_EQ(schedule.text(), "0:128,6:160,12:224");
  EXPECT_TRUE(SizeSchedule("--size-schedule", "").is_empty());
}

TEST(SizeScheduleTest, WrongTextsAreOneLine) {
  const auto refused = [](const std::string& text) {
    return message_of(ErrorKind::kConfig, [&] { SizeSchedule("--size-schedule", text); });
  };
  EXPECT_EQ(refused("6:160,0:128"),
            "--size-schedule is \"6:160,0:128\": it begins with epoch 6; expected EPOCH:SIZE,... with ascending epochs "
            "from 0 on, such as 0:128,6:160,12:224");
  EXPECT_THAT(refused("0:128,6:160,6:224"), HasSubstr("epoch 6 comes after epoch 6"));
  EXPECT_THAT(refused("0:128,6:160,2:224"), HasSubstr("epoch 2 comes after epoch 6"));
  EXPECT_THAT(refused("0:0"), HasSubstr("size is 0, not 1 to 65535"));
  EXPECT_THAT(refused("0:-5"), HasSubstr("size is -5, not 1 to 65535"));
  EXPECT_THAT(refused("0:70000"), HasSubstr("size is 70000, not 1 to 65535"));
  EXPECT_THAT(refused("-1:32"), HasSubstr("it begins with epoch -1"));
  for (const char* part : {"0", "small", "0:", ":128", "0:12.5", "0:128x", "0:1:2", "0:99999999999999999999"})
    EXPECT_THAT(refused(part), HasSubstr(std::string(part) + "\" is not EPOCH:SIZE")) << part;
  EXPECT_THAT(refused("0:128,"), HasSubstr("\"\" is not EPOCH:SIZE"));
}

TEST(SizeScheduleTest, TheLastTransformThatSetsTheSizeHasAnother) {
  EXPECT_EQ(with_size("random-resized-crop(size=224,scale=0.2:1),flip,erase", 96),
            "random-resized-crop(scale=0.2:1,size=96),flip,erase");
  EXPECT_EQ(with_size("resize(size=256),center-crop(size=224),normalize", 96),
            "resize(size=256),center-crop(size=96),normalize");
  EXPECT_EQ(with_size("letterbox(size=64),crop(pad=4),shift,cutout(size=8)", 32),
            "letterbox(size=32),crop(pad=4),shift,cutout(size=8)");
  EXPECT_EQ(with_size("resize(height=20,width=30),crop(size=8,pad=1)", 12),
            "resize(height=20,width=30),crop(pad=1,size=12)");
  for (const auto& [name, entry] : TransformRegistry::entries()) {
    if (!entry.traits.sets_size) continue;
    const Pipeline sized = with_size(Pipeline(name + "(size=9)", {.channels = 3}), 7);
    const Plan plan = sized.plan(20, 20, 1, 2, 3);
    EXPECT_EQ(std::min(plan.output_height, plan.output_width), 7) << name;
  }
}

/// What is random is drawn from the same numbers.
TEST(SizeScheduleTest, ACropShowsTheSamePartInEverySize) {
  const Pipeline pipeline("random-resized-crop(size=224),flip", {.channels = 3});
  const Plan large = pipeline.plan(300, 400, 1, 2, 3), small = with_size(pipeline, 112).plan(300, 400, 1, 2, 3);
  EXPECT_EQ(small.output_width, 112);
  EXPECT_EQ(small.view, large.view);
  EXPECT_FLOAT_EQ(static_cast<float>(small.map.xx), static_cast<float>(2 * large.map.xx));
}

TEST(SizeScheduleTest, ListsWithoutASizeAreRefused) {
  EXPECT_EQ(message_of(ErrorKind::kConfig, [] { with_size("flip,shift(pad=2)", 9); }),
            "size schedule: the transforms \"flip,shift(pad=2)\" set no size; expected one of center-crop, crop, "
            "letterbox, random-resized-crop, resize, scale-jitter among them");
  EXPECT_EQ(
      message_of(ErrorKind::kConfig, [] { with_size("resize(height=9,width=9)", 9); }),
      "size schedule: transform resize(height=9,width=9) has a height and a width; expected size= in their place");
  EXPECT_EQ(stated_size("resize(size=9),flip"), 9);
  EXPECT_EQ(stated_size("resize(height=9,width=9),flip"), std::nullopt);
  EXPECT_EQ(stated_size("flip"), std::nullopt);
}

}  // namespace
}  // namespace penstock
