// timm-rand-augment: its operations against timm's (tests/golden/timm.json, which make_timm.py writes), what is drawn,
// and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <vector>

#include "augment/draws/timm_op.h"
#include "augment/transform.h"
#include "tests/augment/golden.h"
#include "tests/augment/refusal.h"

namespace penstock {
namespace {

using detail::TimmOp;
using nlohmann::json;
using test::is_tie;

std::string timm_refusal(const std::string& config) {
  return test::refusal("timm-rand-augment(config=" + config + ")", {.channels = 3});
}

/// The greatest difference that Pillow's rounding makes. Where it interpolates, it cuts to whole levels.
float timm_tolerance(const json& one, bool moves) { return moves && one["filter"] != "nearest" ? 1.002f : 0.f; }

TEST(TimmGoldenTest, EveryOperationIsTimms) {
  const json golden = test::read_golden("timm.json");
  const auto picture = test::golden_picture(golden, "small");
  size_t level_count = 0, tie_count = 0;
  for (const auto& one : golden["operations"]) {
    Plan plan = Plan::identity(picture.view.height, picture.view.width);
    plan.fill = golden["fill"];
    const auto op = one["op"].get<TimmOp>();
    detail::apply(
        {.op = op, .magnitude = one["magnitude"], .is_negative = one["negative"], .increases = one["increases"]}, plan);
    const bool moves = detail::is_geometric(op);
    plan.filter = one["filter"] == "nearest" ? Filter::kNearest : Filter::kBilinear;
    const auto made = test::levels_of(picture.view, plan), expected = one["u8"].get<std::vector<float>>();
    ASSERT_EQ(made.size(), expected.size());
    for (size_t i = 0; i < made.size(); ++i, ++level_count) {
      if (std::fabs(made[i] - expected[i]) <= timm_tolerance(one, moves)) continue;
      ++tie_count;
      ASSERT_TRUE(moves && is_tie(plan, i / 3))
          << "made " << made[i] << ", timm " << expected[i] << " at " << i << " of " << one["name"] << " "
          << one["magnitude"] << " " << one["negative"] << " " << one["filter"];
    }
  }
  EXPECT_EQ(golden["operations"].size(), 147u);
  EXPECT_LE(tie_count, level_count / 500);
}

/// Names the one operation of a plan of 64 x 96 pixels.
std::string timm_operation(const Plan& plan) {
  if (plan.color_step_count > 0) {
    const ColorStep step = plan.color_steps[0];
    return "colour " + std::to_string(static_cast<int>(step.op)) +
           (step.op == ColorOp::kSolarize && step.amount == 0 ? "i" : "");
  }
  const Affine& m = plan.map;
  if (m.xx != 1) return "rotate";
  if (m.xy != 0 || m.yx != 0) return m.xy != 0 ? "shear-x" : "shear-y";
  if (m.x0 != 0 || m.y0 != 0) return m.x0 != 0 ? "translate-x" : "translate-y";
  return "none";
}

TEST(TimmRandAugmentTest, EveryOperationIsDrawnAsOftenAndAppliedByHalf) {
  const Pipeline pipeline("timm-rand-augment(config=rand-m9-n1-inc1)", {.channels = 3});
  constexpr int kCount = 30000;
  std::map<std::string, int> counts;
  for (uint64_t id = 0; id < kCount; ++id) ++counts[timm_operation(pipeline.plan(64, 96, 1, 0, id))];
  EXPECT_NEAR(counts["none"], kCount / 2, 4.5 * std::sqrt(kCount / 4.0));
  counts.erase("none");
  EXPECT_EQ(counts.size(), static_cast<size_t>(detail::kTimmOps));
  for (const auto& [name, count] : counts) EXPECT_NEAR(count, kCount / 30.0, 4.5 * std::sqrt(kCount / 30.0)) << name;
}

/// The magnitudes that sheared plans of this list have had, with their signs.
std::vector<double> timm_magnitudes(const std::string& config) {
  const Pipeline pipeline("timm-rand-augment(config=" + config + ")", {.channels = 3});
  std::vector<double> found;
  for (uint64_t id = 0; id < 60000; ++id) {
    const Plan plan = pipeline.plan(64, 96, 1, 0, id);
    if (plan.map.xx == 1 && plan.map.xy != 0) found.push_back(plan.map.xy / 0.3 * 10);
  }
  return found;
}

TEST(TimmRandAugmentTest, MagnitudesAreNormalWithTheirDeviationAndAreLimited) {
  const auto magnitudes = timm_magnitudes("rand-m5-n1-p1-mstd0.5");
  const auto count = static_cast<double>(magnitudes.size());
  EXPECT_NEAR(count, 4000, 4.5 * std::sqrt(4000));
  double sum = 0, squares = 0, negative = 0;
  for (const double signed_magnitude : magnitudes) {
    const double m = std::fabs(signed_magnitude);
    sum += m - 5;
    squares += (m - 5) * (m - 5);
    negative += signed_magnitude < 0;
  }
  EXPECT_NEAR(sum / count, 0, 4.5 * 0.5 / std::sqrt(count));
  EXPECT_NEAR(squares / count, 0.25, 4.5 * 0.25 * std::sqrt(2 / count));
  EXPECT_NEAR(negative / count, 0.5, 4.5 * 0.5 / std::sqrt(count));
  double full = 0, greatest = 0;
  for (const double m : timm_magnitudes("rand-m10-n1-p1-mstd1")) full += std::fabs(m) > 10 - 1e-9;
  EXPECT_NEAR(full / count, 0.5, 0.08);
  for (const double m : timm_magnitudes("rand-m10-n1-p1-mstd1-mmax12")) greatest = std::max(greatest, std::fabs(m));
  EXPECT_NEAR(greatest, 12, 1e-9);
  double uniform = 0;
  const auto evenly = timm_magnitudes("rand-m8-n1-p1-mstd101");
  for (const double m : evenly) uniform += std::fabs(m) < 2;
  EXPECT_NEAR(uniform / static_cast<double>(evenly.size()), 0.25, 0.04);
}

TEST(TimmRandAugmentTest, ItsTextIsTimms) {
  const Pipeline pipeline("timm-rand-augment(config=rand-m9-mstd0.5-inc1-n4,fill=124:116:104)", {.channels = 3});
  EXPECT_EQ(pipeline.color_steps(), 4);
  EXPECT_EQ(pipeline.plan(64, 96, 1, 0, 0).fill, (std::array<float, 3>{124, 116, 104}));
  EXPECT_EQ(Pipeline("timm-rand-augment", {}).plan(64, 96, 1, 0, 0).fill, (std::array<float, 3>{128, 128, 128}));
  for (const char* text : {"m9", "rand-m9-x1", "rand-m", "rand-m9.5", "rand-n0", "rand-n9", "rand-p2", "rand-inc2",
                           "rand-tweights", "rand-mstd", "rand--m9", "rand-m9a"})
    EXPECT_EQ(
        timm_refusal(text),
        std::string("transform timm-rand-augment: config is \"") + text +
            "\"; expected rand, and any of -m0 to 100, -n1 to 8, -p0 to 1, -mstd0 or more, -mmax1 to 100 and -inc0 "
            "or 1, such as rand-m9-mstd0.5-inc1");
  EXPECT_EQ(test::refusal("timm-rand-augment(fill=1:2)", {}),
            "transform timm-rand-augment: fill is \"1:2\"; expected 1 or 3 levels from 0 to 255");
}

}  // namespace
}  // namespace penstock
