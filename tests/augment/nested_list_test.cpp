// apply and choice: how often, which list, and that a list within them does what it does alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>

#include "augment/transform.h"
#include "tests/augment/refusal.h"

namespace penstock {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

Plan nested_plan(const std::string& list, uint64_t id) {
  return Pipeline(list, {.channels = 3}).plan(30, 40, 1, 0, id);
}

bool are_alike(const Plan& a, const Plan& b) {
  return a.map.xx == b.map.xx && a.map.xy == b.map.xy && a.map.x0 == b.map.x0 && a.map.yx == b.map.yx &&
         a.map.yy == b.map.yy && a.map.y0 == b.map.y0 && a.filter == b.filter && a.fill == b.fill &&
         a.color_step_count == b.color_step_count && a.color_steps == b.color_steps && a.output_width == b.output_width;
}

TEST(ApplyTest, RunsItsWholeListOrNothing) {
  const Pipeline pipeline("apply(p=0.8,list={rotate(degrees=5:20),color-jitter(brightness=0.5:0.9,hue=0.1)})",
                          {.channels = 3});
  EXPECT_EQ(pipeline.color_steps(), 2);
  int applied = 0;
  constexpr int kCount = 10000;
  for (uint64_t id = 0; id < kCount; ++id) {
    const Plan plan = pipeline.plan(30, 40, 1, 0, id);
    const bool is_turned = plan.map.xy != 0;
    ASSERT_EQ(plan.color_step_count, is_turned ? 2 : 0);
    applied += is_turned;
  }
  EXPECT_NEAR(applied, 0.8 * kCount, 4.5 * std::sqrt(0.8 * 0.2 * kCount));
}

TEST(ApplyTest, AListThatDrawsNothingIsAsItIsAlone) {
  const std::string list = "vflip(p=1),rotate(degrees=9:9,fill=7),solarize(threshold=90,p=1),grayscale(p=1)";
  for (uint64_t id = 0; id < 20; ++id) {
    EXPECT_TRUE(are_alike(nested_plan("apply(p=1,list={" + list + "})", id), nested_plan(list, id)));
    EXPECT_TRUE(are_alike(nested_plan("apply(p=0,list={" + list + "})", id), nested_plan("", id)));
    EXPECT_TRUE(are_alike(nested_plan("choice(of={" + list + "}|invert,p=1:0)", id), nested_plan(list, id)));
    EXPECT_TRUE(are_alike(nested_plan("apply(p=1,list={apply(p=1,list={" + list + "})})", id), nested_plan(list, id)));
  }
}

TEST(ChoiceTest, RunsEachListByItsWeight) {
  const std::string lists = "choice(of={grayscale(p=1)}|{solarize(p=1),equalize(p=1)}|{}";
  constexpr int kCount = 10000;
  const auto counts_of = [&](const std::string& spec) {
    const Pipeline pipeline(spec, {.channels = 3});
    std::array<int, 3> counts{};
    for (uint64_t id = 0; id < kCount; ++id)
      ++counts[static_cast<size_t>(pipeline.plan(30, 40, 1, 0, id).color_step_count)];
    return counts;
  };
  for (const char* end : {")", ",p=1e308:1e308:1e308)"})  // the sum of the latter is infinite
    for (const int count : counts_of(lists + end)) EXPECT_NEAR(count, kCount / 3.0, 4.5 * std::sqrt(kCount * 2 / 9.0));
  const auto weighted = counts_of(lists + ",p=1:3:0)");
  EXPECT_EQ(weighted[0], 0);
  EXPECT_NEAR(weighted[1], kCount / 4.0, 4.5 * std::sqrt(kCount * 3 / 16.0));
}

TEST(NestedListTest, WhatCannotBeThereIsRefusedInOneLine) {
  EXPECT_EQ(test::refusal("apply"), "transform apply: has no list; expected list={NAME(...),...}");
  EXPECT_EQ(test::refusal("apply(p=2,list={flip})"), "transform apply: p is 2; expected 0 to 1");
  EXPECT_EQ(test::refusal("choice"),
            "transform choice: chooses of 0 lists; expected of={NAME(...),...}|{...} with 2 or more");
  EXPECT_THAT(test::refusal("choice(of={flip,vflip})"), StartsWith("transform choice: chooses of 1 lists; "));
  EXPECT_EQ(
      test::refusal("choice(of={flip}|{vflip},p=1)"),
      "transform choice: p is \"1\"; expected 2 weights of 0 or more, one for each list, and one of them more than 0");
  EXPECT_THAT(test::refusal("choice(of={flip}|{vflip},p=0:0)"), HasSubstr("p is \"0:0\""));
  for (const char* name : {"erase", "cutout", "normalize", "mixup", "alternating-flip", "resize(size=9)",
                           "random-iou-crop", "crop(pad=2,border=edge)"})
    EXPECT_THAT(test::refusal(std::string("apply(list={") + name + "})"),
                HasSubstr("; expected transforms of geometry and colour that keep the size"))
        << name;
  EXPECT_THAT(test::refusal("apply(list={flp})"), HasSubstr("did you mean \"flip\"?"));
  EXPECT_THAT(test::refusal("apply(list={flip)"), HasSubstr("unbalanced"));
  EXPECT_THAT(test::refusal("erase,apply(list={flip})"), HasSubstr("comes after erase"));
  EXPECT_THAT(test::refusal("apply(list={rand-augment(ops=8)}),grayscale"), HasSubstr("9 colour steps"));
  std::string deep = "flip";
  for (int i = 0; i < 8; ++i) deep = "apply(list={" + deep + "})";
  EXPECT_EQ(test::refusal(deep), "accepted: " + deep);
  EXPECT_THAT(test::refusal("apply(list={" + deep + "})"),
              HasSubstr("has 9 braces within each other; expected up to 8"));
}

}  // namespace
}  // namespace penstock
