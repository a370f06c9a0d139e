// Compares colour steps, learned and random operations and random-resized-crop with torchvision:
// tests/golden/colors.json, which make_colors.py writes.
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "augment/draws/trivial_augment.h"
#include "augment/transform.h"
#include "tests/augment/golden.h"

namespace penstock {
namespace {

using nlohmann::json;
using test::is_tie, test::levels_of;

const json& golden_colors() {
  static const json parsed = test::read_golden("colors.json");
  return parsed;
}

test::OwnedPicture picture_of(const std::string& name) { return test::golden_picture(golden_colors(), name); }

ColorOp op_of(const std::string& name) {
  static const std::map<std::string, ColorOp> ops{
      {"brightness", ColorOp::kBrightness},     {"contrast", ColorOp::kContrast},
      {"saturation", ColorOp::kSaturation},     {"hue", ColorOp::kHue},
      {"sharpness", ColorOp::kSharpness},       {"posterize", ColorOp::kPosterize},
      {"solarize", ColorOp::kSolarize},         {"equalize", ColorOp::kEqualize},
      {"auto-contrast", ColorOp::kAutoContrast}};
  return ops.at(name);
}

std::vector<float> made_by_steps(const json& one) {
  const auto picture = picture_of(one["picture"]);
  Plan plan = Plan::identity(picture.view.height, picture.view.width);
  for (const auto& [op, amount] : one["steps"].get<std::vector<std::pair<std::string, float>>>())
    plan.adjust(op_of(op), amount);
  return levels_of(picture.view, plan);
}

TEST(ColorGoldenTest, StepsEqualTorchvisionOnFloats) {
  int level_count = 0;
  for (const auto& one : golden_colors()["steps"]) {
    if (one["f32"].is_null()) continue;
    const auto made = made_by_steps(one);
    const auto expected = one["f32"].get<std::vector<float>>();
    ASSERT_EQ(made.size(), expected.size());
    for (size_t i = 0; i < made.size(); ++i, ++level_count)
      ASSERT_NEAR(made[i], expected[i], 0.02) << one["steps"] << " on " << one["picture"] << " at " << i;
  }
  EXPECT_GT(level_count, 30000);
}

TEST(ColorGoldenTest, LookUpsEqualTorchvisionOnBytes) {
  int case_count = 0;
  for (const auto& one : golden_colors()["steps"]) {
    if (!one["f32"].is_null()) continue;
    EXPECT_EQ(made_by_steps(one), one["u8"].get<std::vector<float>>()) << one["steps"] << " on " << one["picture"];
    ++case_count;
  }
  EXPECT_EQ(case_count, 14);
}

TEST(ColorGoldenTest, StepsStayNearTorchvisionOnBytes) {
  // torchvision truncates to whole levels after each of up to 4 steps. The differences seen are 0.35 levels on average,
  // at most 3 for 99.9 % of the levels, and 4 at most.
  double sum = 0;
  std::vector<float> differences;
  for (const auto& one : golden_colors()["steps"]) {
    const auto made = made_by_steps(one);
    const auto expected = one["u8"].get<std::vector<float>>();
    for (size_t i = 0; i < made.size(); ++i) {
      differences.push_back(std::fabs(std::nearbyint(made[i]) - expected[i]));
      sum += differences.back();
    }
  }
  std::sort(differences.begin(), differences.end());
  EXPECT_LT(sum / static_cast<double>(differences.size()), 0.4);
  EXPECT_LE(differences[differences.size() * 999 / 1000], 3);
  EXPECT_LE(differences.back(), 5);
}

/// Renders every case of `operations` after edit(case, plan), and compares it with torchvision on bytes.
void expect_operations_equal(const json& operations, const std::function<void(const json&, Plan&)>& edit) {
  const auto picture = picture_of("small");
  size_t tie_count = 0;
  for (const auto& one : operations) {
    Plan plan = Plan::identity(picture.view.height, picture.view.width);
    edit(one, plan);
    const auto made = levels_of(picture.view, plan);
    const auto expected = one["u8"].get<std::vector<float>>();
    ASSERT_EQ(made.size(), expected.size());
    const bool is_geometric = detail::is_geometric(one["op"].get<detail::PictureOp>());
    for (size_t i = 0; i < made.size(); ++i) {
      if (made[i] == expected[i]) continue;
      ++tie_count;
      ASSERT_TRUE(is_geometric && is_tie(plan, i / 3))
          << "made " << made[i] << ", torchvision " << expected[i] << " at " << i << " of " << one["name"] << " "
          << one["bin"] << " " << one["negative"];
    }
  }
  // Most ties are at 135 degrees, where a diagonal falls on the borders of pixels.
  EXPECT_LE(tie_count, operations.size() * 672 / 500);
}

TEST(TrivialAugmentGoldenTest, EveryOperationEqualsTorchvision) {
  const json& operations = golden_colors()["trivial"];
  EXPECT_EQ(operations.size(), 63u);
  expect_operations_equal(operations, [](const json& one, Plan& plan) {
    const double part = detail::trivial_part(one["bin"]);
    detail::apply(one["op"].get<detail::PictureOp>(), one["negative"] ? -part : part, detail::kTrivialMagnitude, plan);
  });
}

TEST(RandAugmentGoldenTest, EveryOperationEqualsTorchvision) {
  const json& operations = golden_colors()["rand"];
  EXPECT_EQ(operations.size(), 84u);
  expect_operations_equal(operations, [](const json& one, Plan& plan) {
    const double part = one["bin"].get<int>() / 30.0;
    detail::apply(one["op"].get<detail::PictureOp>(), one["negative"] ? -part : part,
                  detail::auto_augment_magnitude(plan, 31), plan);
  });
}

TEST(AutoAugmentGoldenTest, EveryPolicyIsTorchvisions) {
  for (const auto& [policy, pairs] : golden_colors()["policies"].items()) {
    const Pipeline pipeline("auto-augment(policy=" + policy + ")", {.channels = 3});
    std::set<int> drawn;
    for (uint64_t id = 0; id < 2000; ++id) {
      Rng rng(1, 0, id, 0);
      Plan expected = Plan::identity(40, 60);
      const int pair = rng.between(0, 24);
      for (const auto& [op, p, magnitude] :
           pairs[pair].get<std::vector<std::tuple<detail::PictureOp, double, int>>>()) {
        const bool is_applied = rng.chance(p), is_negative = rng.chance(0.5) && detail::has_sign(op);
        if (!is_applied) continue;
        detail::apply(op, (is_negative ? -magnitude : magnitude) / 9.0, detail::auto_augment_magnitude(expected, 10),
                      expected);
      }
      const Plan made = pipeline.plan(40, 60, 1, 0, id);
      ASSERT_EQ(made.color_steps, expected.color_steps) << policy << " " << pair;
      const auto numbers = [](const Affine& m) { return std::array{m.xx, m.xy, m.x0, m.yx, m.yy, m.y0}; };
      ASSERT_EQ(numbers(made.map), numbers(expected.map)) << policy << " " << pair;
      drawn.insert(pair);
    }
    EXPECT_EQ(drawn.size(), 25u) << policy;
  }
}

/// The statistics that make_colors.py takes of many crops.
struct CropStatistics {
  std::vector<double> areas;
  double log_ratio = 0, log_ratio_square = 0, x = 0, y = 0, whole_height = 0;  // all of them are sums
};

CropStatistics crops_of(const json& one, int count) {
  const int height = one["height"], width = one["width"];
  const auto scale = one["scale"].get<std::array<double, 2>>(), ratio = one["ratio"].get<std::array<double, 2>>();
  std::ostringstream spec;
  spec.precision(17);
  spec << "random-resized-crop(size=32,scale=" << scale[0] << ":" << scale[1] << ",ratio=" << ratio[0] << ":"
       << ratio[1] << ")";
  const Pipeline pipeline(spec.str(), {});
  CropStatistics sums;
  for (int i = 0; i < count; ++i) {
    const Affine map = pipeline.plan(height, width, 3, 0, static_cast<uint64_t>(i)).map;
    const double columns = map.xx * 32, rows = map.yy * 32, log_ratio = std::log(columns / rows);
    sums.areas.push_back(columns * rows / (static_cast<double>(height) * width));
    sums.log_ratio += log_ratio;
    sums.log_ratio_square += log_ratio * log_ratio;
    sums.x += map.x0 + columns / 2;
    sums.y += map.y0 + rows / 2;
    sums.whole_height += std::lround(rows) == height;
  }
  std::sort(sums.areas.begin(), sums.areas.end());
  return sums;
}

TEST(RandomResizedCropGoldenTest, DrawsAreDistributedAsTorchvisions) {
  constexpr int kCount = 40000;  // as many as in make_colors.py; tolerances are 5 standard errors of the difference
  for (const auto& one : golden_colors()["crops"]) {
    const CropStatistics sums = crops_of(one, kCount);
    const auto deciles = one["area_deciles"].get<std::vector<double>>();
    for (size_t i = 0; i < deciles.size(); ++i)
      EXPECT_NEAR(sums.areas[kCount * (i + 1) / 10], deciles[i], 0.02) << "decile " << i + 1 << " of " << one["width"];
    const double mean = sums.log_ratio / kCount;
    const double deviation = std::sqrt(sums.log_ratio_square / kCount - mean * mean);
    EXPECT_NEAR(mean, one["log_ratio_mean"].get<double>(), 0.006) << one["width"];
    EXPECT_NEAR(deviation, one["log_ratio_deviation"].get<double>(), 0.004) << one["width"];
    EXPECT_NEAR(sums.x / kCount, one["x_mean"].get<double>(), 0.008 * one["width"].get<double>()) << one["width"];
    EXPECT_NEAR(sums.y / kCount, one["y_mean"].get<double>(), 0.008 * one["height"].get<double>()) << one["width"];
    EXPECT_NEAR(sums.whole_height / kCount, one["whole_height_share"].get<double>(), 0.018) << one["width"];
  }
}

}  // namespace
}  // namespace penstock
