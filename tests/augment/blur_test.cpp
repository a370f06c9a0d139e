// gaussian-blur and three-augment: against torchvision's and Pillow's blurs (tests/golden/blurs.json, which
// make_blurs.py writes), what is drawn, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "augment/pixels/blur_taps.h"
#include "augment/transform.h"
#include "tests/augment/golden.h"
#include "tests/augment/refusal.h"

namespace penstock {
namespace {

using nlohmann::json;
using testing::HasSubstr;

std::string blur_refusal(const std::string& spec) { return test::refusal(spec, {.channels = 3}); }

/// Calls compare(levels, case) for every blur with this kind of kernel.
template <class Compare>
int each_blur(bool has_kernel, const Compare& compare) {
  static const json golden = test::read_golden("blurs.json");
  int count = 0;
  for (const auto& one : golden["blurs"]) {
    const int kernel = one["kernel"];
    if ((kernel > 0) != has_kernel) continue;
    const auto picture = test::golden_picture(golden, one["picture"]);
    Plan plan = Plan::identity(picture.view.height, picture.view.width);
    plan.adjust(ColorOp::kGaussianBlur, one["deviation"], kernel);
    SCOPED_TRACE(testing::Message() << one["picture"] << ", kernel " << kernel << ", " << one["deviation"]);
    compare(test::levels_of(picture.view, plan), one);
    ++count;
  }
  return count;
}

TEST(GaussianBlurGoldenTest, WithAKernelItIsTorchvisionsOnFloatsAndOnBytes) {
  const int count = each_blur(true, [](const std::vector<float>& made, const json& one) {
    const auto exact = one["f32"].get<std::vector<float>>(), whole = one["u8"].get<std::vector<float>>();
    ASSERT_EQ(made.size(), exact.size());
    for (size_t i = 0; i < made.size(); ++i) {
      ASSERT_NEAR(made[i], exact[i], 0.01) << i;
      ASSERT_NEAR(made[i], whole[i], 0.51) << i;
    }
  });
  EXPECT_EQ(count, 18);
}

TEST(GaussianBlurGoldenTest, WithoutAKernelItIsPillowsWithinOneLevel) {
  size_t level_count = 0, other_count = 0;  // others: a sum that Pillow's fixed point rounds to the other side
  const int count = each_blur(false, [&](const std::vector<float>& made, const json& one) {
    const auto whole = one["u8"].get<std::vector<float>>();
    ASSERT_EQ(made.size(), whole.size());
    for (size_t i = 0; i < made.size(); ++i, ++level_count) {
      ASSERT_NEAR(made[i], whole[i], 1.0) << i;
      other_count += made[i] != whole[i];
    }
  });
  EXPECT_EQ(count, 14);
  EXPECT_LE(other_count, level_count / 50) << "of " << level_count;
}

TEST(GaussianBlurTest, PillowsWeightsHaveTheVarianceThatWasAskedFor) {
  for (const float deviation : {0.05f, 0.5f, 1.f, 2.f, 7.3f, kMaxBlurDeviation}) {
    const auto taps = detail::blur_taps(0, detail::blur_shape(deviation, 0));
    ASSERT_LE(taps.reach, detail::BlurTaps::kMaxReach);
    double sum = taps.weight[0], variance = 0;
    for (int k = 1; k <= taps.reach; ++k) {
      sum += 2 * taps.weight[k];
      variance += 2.0 * k * k * taps.weight[k];
    }
    EXPECT_NEAR(sum, 1, 1e-6);
    EXPECT_NEAR(detail::blur_passes(0) * variance / (deviation * deviation), 1, 1e-4) << deviation;
  }
}

TEST(GaussianBlurTest, WhatIsLeftOutOfAKernelChangesNoLevel) {
  const auto taps = detail::blur_taps(kMaxBlurKernel, detail::blur_shape(1, kMaxBlurKernel));
  EXPECT_EQ(taps.reach, 5);
  double sum = taps.weight[0];
  for (int k = 1; k <= taps.reach; ++k) sum += 2 * taps.weight[k];
  EXPECT_NEAR(sum, 1, 4e-6);
}

/// Counts of deviations in ten classes of one width over the range, of the steps that are blurs with this kernel.
std::array<int, 10> deviations(const Pipeline& pipeline, double low, double high, int kernel, uint64_t count) {
  std::array<int, 10> counts{};
  for (uint64_t id = 0; id < count; ++id) {
    const Plan plan = pipeline.plan(30, 40, 1, 0, id);
    if (plan.color_step_count == 0 || plan.color_steps[0].op != ColorOp::kGaussianBlur) continue;
    EXPECT_EQ(plan.color_steps[0].kernel, kernel);
    const double share = (plan.color_steps[0].amount - low) / (high - low);
    EXPECT_TRUE(share >= -1e-6 && share <= 1 + 1e-6) << plan.color_steps[0].amount;
    ++counts[static_cast<size_t>(std::clamp(share * 10, 0.0, 9.0))];
  }
  return counts;
}

void expect_even(const std::array<int, 10>& counts, double expected) {
  for (const int count : counts) EXPECT_NEAR(count, expected / 10, 4.5 * std::sqrt(expected / 10));
}

TEST(GaussianBlurTest, DeviationIsDrawnEvenlyAndWithItsProbability) {
  const Pipeline some("gaussian-blur(kernel=9,sigma=0.5:3,p=0.25)", {.channels = 3});
  EXPECT_EQ(some.color_steps(), 1);
  EXPECT_FALSE(some.is_deterministic());
  expect_even(deviations(some, 0.5, 3, 9, 16000), 4000);
  const Pipeline every("gaussian-blur", {.channels = 3});  // torchvision's range, each picture, Pillow's blur
  expect_even(deviations(every, 0.1, 2, 0, 4000), 4000);
}

TEST(ThreeAugmentTest, EachOfTheThreeIsDrawnAsOften) {
  const Pipeline pipeline("three-augment(sigma=0.2:1)", {.channels = 3});
  EXPECT_EQ(pipeline.color_steps(), 1);
  constexpr int kCount = 9000;
  int grey = 0, solarized = 0, blurred = 0;
  for (uint64_t id = 0; id < kCount; ++id) {
    const Plan plan = pipeline.plan(30, 40, 1, 0, id);
    ASSERT_EQ(plan.color_step_count, 1);
    const ColorStep step = plan.color_steps[0];
    grey += step == ColorStep{ColorOp::kSaturation, 0};
    solarized += step == ColorStep{ColorOp::kSolarize, 128};
    blurred += step.op == ColorOp::kGaussianBlur && step.kernel == 0;
  }
  EXPECT_EQ(grey + solarized + blurred, kCount);
  for (const int count : {grey, solarized, blurred}) EXPECT_NEAR(count, kCount / 3, 4.5 * std::sqrt(kCount * 2 / 9.0));
  expect_even(deviations(pipeline, 0.2, 1, 0, kCount), blurred);
}

TEST(GaussianBlurTest, WhatCannotBeIsRefusedInOneLine) {
  for (const char* kernel : {"0", "4", "-3", "129"})
    EXPECT_EQ(blur_refusal(std::string("gaussian-blur(kernel=") + kernel + ")"),
              std::string("transform gaussian-blur: kernel is ") + kernel +
                  "; expected an odd number of 1 to 127 pixels, or none for Pillow's blur");
  EXPECT_EQ(blur_refusal("gaussian-blur(sigma=0:2)"),
            "transform gaussian-blur: sigma is 0:2; expected more than 0, up to 60 pixels");
  EXPECT_THAT(blur_refusal("three-augment(sigma=1:61)"), HasSubstr("transform three-augment: sigma is 1:61"));
  EXPECT_THAT(blur_refusal("gaussian-blur(p=2)"), HasSubstr("p is 2; expected 0 to 1"));
  EXPECT_THAT(blur_refusal("gaussian-blur(radius=2)"), HasSubstr("unknown key \"radius\""));
  EXPECT_THAT(test::refusal("gaussian-blur", {.channels = 4}), HasSubstr("expected 1 or 3 channels of u8"));
  EXPECT_THAT(blur_refusal("erase,three-augment"), HasSubstr("comes after erase"));
  Plan plan = Plan::identity(4, 4);
  EXPECT_THROW(plan.adjust(ColorOp::kGaussianBlur, 0), Error);
  EXPECT_THROW(plan.adjust(ColorOp::kGaussianBlur, 1, 2), Error);
}

TEST(GaussianBlurTest, AListWithinAListHasIt) {
  EXPECT_EQ(blur_refusal("apply(p=0.5,list={gaussian-blur(kernel=23)})").substr(0, 8), "accepted");
  EXPECT_EQ(blur_refusal("choice(of={gaussian-blur}|{three-augment})").substr(0, 8), "accepted");
}

}  // namespace
}  // namespace penstock
