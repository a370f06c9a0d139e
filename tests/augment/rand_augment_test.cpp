// rand-augment, auto-augment and the transforms of one colour step: what is drawn and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>

#include "augment/transform.h"
#include "tests/augment/refusal.h"

namespace penstock {
namespace {

using testing::HasSubstr;

std::string rand_refusal(const std::string& spec) { return test::refusal(spec, {.channels = 3}); }

/// Names the one operation of a plan of 64 x 96 pixels.
std::string operation_of(const Plan& plan) {
  if (plan.color_step_count > 0) return "colour " + std::to_string(static_cast<int>(plan.color_steps[0].op));
  const Affine& m = plan.map;
  if (m.xx != 1) return "rotate";
  if (m.xy != 0 || m.yx != 0) return m.xy != 0 ? "shear-x" : "shear-y";
  if (m.x0 != 0 || m.y0 != 0) return m.x0 != 0 ? "translate-x" : "translate-y";
  return "identity";
}

TEST(RandAugmentTest, EveryOperationIsDrawnAsOften) {
  const Pipeline pipeline("rand-augment(ops=1)", {.channels = 3});
  constexpr int kCount = 28000, kOps = 14;
  std::map<std::string, int> counts;
  for (uint64_t id = 0; id < kCount; ++id) ++counts[operation_of(pipeline.plan(64, 96, 1, 0, id))];
  EXPECT_EQ(counts.size(), static_cast<size_t>(kOps));
  double chi_squared = 0;
  for (const auto& [name, count] : counts)
    chi_squared += std::pow(count - kCount / kOps, 2) / (static_cast<double>(kCount) / kOps);
  EXPECT_LT(chi_squared, 42.6);  // 13 degrees of freedom: more in 1 of 20,000 cases
}

TEST(RandAugmentTest, SignsAreDrawnAsOftenAndMagnitudeIsTorchvisions) {
  const Pipeline pipeline("rand-augment(ops=1,magnitude=9)", {.channels = 3});
  std::map<std::string, std::map<double, int>> amounts;
  for (uint64_t id = 0; id < 28000; ++id) {
    const Plan plan = pipeline.plan(64, 96, 1, 0, id);
    const std::string name = operation_of(plan);
    if (name == "shear-x") ++amounts[name][plan.map.xy];
    if (name == "translate-x") ++amounts[name][plan.map.x0];
    if (name == "colour 0") ++amounts[name][plan.color_steps[0].amount];
    if (name == "colour 6") ++amounts[name][plan.color_steps[0].amount];
  }
  const std::map<std::string, std::array<double, 2>> expected{
      {"shear-x", {-0.09, 0.09}}, {"translate-x", {-13, 13}}, {"colour 0", {0.73, 1.27}}};
  for (const auto& [name, pair] : expected) {
    ASSERT_EQ(amounts[name].size(), 2u) << name;
    const auto [least, greatest] = std::pair(*amounts[name].begin(), *amounts[name].rbegin());
    EXPECT_NEAR(least.first, pair[0], 1e-6) << name;
    EXPECT_NEAR(greatest.first, pair[1], 1e-6) << name;
    EXPECT_NEAR(least.second - greatest.second, 0, 4.5 * std::sqrt(least.second + greatest.second)) << name;
  }
  ASSERT_EQ(amounts["colour 6"].size(), 1u);  // solarize has no sign
  EXPECT_NEAR(amounts["colour 6"].begin()->first, 178.5, 1e-4);
}

/// The magnitudes of 0 to 30 that brightness has had in plans of this list.
std::vector<double> brightness_magnitudes(const std::string& spec) {
  const Pipeline pipeline(spec, {.channels = 3});
  std::vector<double> found;
  for (uint64_t id = 0; id < 70000; ++id) {
    const Plan plan = pipeline.plan(64, 96, 1, 0, id);
    if (plan.color_step_count > 0 && plan.color_steps[0].op == ColorOp::kBrightness)
      found.push_back(std::fabs(plan.color_steps[0].amount - 1.0) / 0.9 * 30);
  }
  return found;
}

TEST(RandAugmentTest, MagnitudesVaryNormallyAndStayInTheirRange) {
  const auto magnitudes = brightness_magnitudes("rand-augment(ops=1,magnitude=15,std=2)");
  const auto count = static_cast<double>(magnitudes.size());
  double sum = 0, squares = 0, within = 0;
  for (const double m : magnitudes) {
    sum += m - 15;
    squares += (m - 15) * (m - 15);
    within += std::fabs(m - 15) < 2;
  }
  EXPECT_NEAR(sum / count, 0, 4.5 * 2 / std::sqrt(count));
  EXPECT_NEAR(squares / count, 4, 4.5 * 4 * std::sqrt(2 / count));
  EXPECT_NEAR(within / count, 0.6827, 4.5 * std::sqrt(0.6827 * 0.3173 / count));
  double full = 0;
  const auto limited = brightness_magnitudes("rand-augment(ops=1,magnitude=30,std=2)");
  for (const double m : limited) {
    EXPECT_LE(m, 30 + 1e-4);
    full += m > 30 - 1e-4;
  }
  const auto limited_count = static_cast<double>(limited.size());
  EXPECT_NEAR(full / limited_count, 0.5, 4.5 * 0.5 / std::sqrt(limited_count));
}

TEST(RandAugmentTest, OperationsAreAppliedOneAfterTheOther) {
  const Pipeline pipeline("rand-augment(ops=5,filter=bilinear,fill=7)", {.channels = 3});
  EXPECT_EQ(pipeline.color_steps(), 5);
  int step_count = 0, bilinear_count = 0;
  constexpr int kCount = 7000;
  for (uint64_t id = 0; id < kCount; ++id) {
    const Plan plan = pipeline.plan(64, 96, 1, 0, id);
    step_count += plan.color_step_count;
    bilinear_count += plan.filter == Filter::kBilinear;
    ASSERT_EQ(plan.fill[0], 7);
  }
  const double share = 8 / 14.;  // of the operations that are colours; 5 of 14 move pixels
  EXPECT_NEAR(step_count, kCount * 5 * share, 4.5 * std::sqrt(kCount * 5 * share * (1 - share)));
  const double moved = 1 - std::pow(9 / 14., 5);
  EXPECT_NEAR(bilinear_count, kCount * moved, 4.5 * std::sqrt(kCount * moved * (1 - moved)));
}

TEST(RandAugmentTest, RefusesBadArguments) {
  EXPECT_EQ(rand_refusal("rand-augment(ops=0)"), "transform rand-augment: ops is 0; expected 1 to 8");
  EXPECT_EQ(rand_refusal("rand-augment(ops=9)"), "transform rand-augment: ops is 9; expected 1 to 8");
  EXPECT_EQ(rand_refusal("rand-augment(magnitude=31)"), "transform rand-augment: magnitude is 31; expected 0 to 30");
  EXPECT_EQ(rand_refusal("rand-augment(std=-1)"), "transform rand-augment: std is -1; expected 0 to 100");
  EXPECT_THAT(rand_refusal("rand-augment(op=2)"), HasSubstr("unknown key \"op\"; did you mean \"ops\"?"));
  EXPECT_EQ(rand_refusal("rand-augment(ops=7),rand-augment"),
            "transform rand-augment: brings the list to 9 colour steps; expected at most 8");
  EXPECT_EQ(rand_refusal("auto-augment(policy=mnist)"),
            "transform auto-augment: policy is \"mnist\"; expected imagenet, cifar10 or svhn");
  EXPECT_THAT(rand_refusal("erase,rand-augment"), HasSubstr("comes after erase"));
}

TEST(OneStepTest, StepIsTakenWithItsProbability) {
  const std::map<std::string, ColorStep> steps{{"solarize(threshold=90,p=0.25)", {ColorOp::kSolarize, 90}},
                                               {"posterize(bits=3,p=0.25)", {ColorOp::kPosterize, 3}},
                                               {"sharpness(factor=1.5,p=0.25)", {ColorOp::kSharpness, 1.5}},
                                               {"equalize(p=0.25)", {ColorOp::kEqualize, 0}},
                                               {"auto-contrast(p=0.25)", {ColorOp::kAutoContrast, 0}},
                                               {"invert(p=0.25)", {ColorOp::kSolarize, 0}}};
  for (const auto& [spec, step] : steps) {
    const Pipeline pipeline(spec, {.channels = 3});
    EXPECT_EQ(pipeline.color_steps(), 1) << spec;
    EXPECT_FALSE(pipeline.is_deterministic()) << spec;
    int count = 0;
    for (uint64_t id = 0; id < 8000; ++id) {
      const Plan plan = pipeline.plan(64, 96, 1, 0, id);
      if (plan.color_step_count == 0) continue;
      ++count;
      ASSERT_EQ(plan.color_steps[0], step) << spec;
    }
    EXPECT_NEAR(count, 2000, 4.5 * std::sqrt(8000 * 0.25 * 0.75)) << spec;
  }
}

TEST(OneStepTest, RefusesBadArguments) {
  EXPECT_EQ(rand_refusal("invert(p=2)"), "transform invert: p is 2; expected 0 to 1");
  EXPECT_EQ(rand_refusal("posterize(bits=0)"), "transform posterize: bits is 0; expected 1 to 8");
  EXPECT_EQ(rand_refusal("posterize(bits=9)"), "transform posterize: bits is 9; expected 1 to 8");
  EXPECT_EQ(rand_refusal("solarize(threshold=-1)"), "transform solarize: threshold is -1; expected 0 to 256");
  EXPECT_EQ(rand_refusal("sharpness(factor=-1)"), "transform sharpness: factor is -1; expected 0 to 100");
  EXPECT_THAT(rand_refusal("equalize(threshold=1)"), HasSubstr("unknown key \"threshold\""));
}

}  // namespace
}  // namespace penstock
