// Batch plans: partners, weights, rectangles and the mixing of rendered rows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "augment/draws/batch_plan.h"
#include "augment/kernels/render_job.h"
#include "augment/pixels/half.h"
#include "augment/render.h"
#include "augment/render/mix_rows.h"
#include "augment/transform.h"
#include "core/error.h"
#include "core/rng.h"
#include "tests/support/forced_target.h"

namespace penstock {
namespace {

using test::ForcedTarget;
using testing::HasSubstr;

constexpr BatchMix kMixup{.kind = BatchMix::Kind::kMixup, .alpha = 0.4};
constexpr BatchMix kCutmix{.kind = BatchMix::Kind::kCutmix, .alpha = 1};

bool same(const BatchPlan& a, const BatchPlan& b) {
  return a.kind == b.kind && a.mix_weight == b.mix_weight && a.rect == b.rect && a.count == b.count &&
         a.shift == b.shift;
}

TEST(BatchPlanTest, EveryPositionHasOneOtherPartnerAndIsOnes) {
  std::set<int64_t> shifts;
  for (const int64_t count : {2, 3, 64, 1000}) {
    for (uint64_t batch = 0; batch < 200; ++batch) {
      const BatchPlan plan = batch_plan(kMixup, 1, 0, batch, count, 8, 8);
      std::set<int64_t> partners;
      for (int64_t i = 0; i < count; ++i) {
        const int64_t partner = plan.partner(i);
        ASSERT_NE(partner, i);
        ASSERT_TRUE(partner >= 0 && partner < count);
        partners.insert(partner);
      }
      ASSERT_EQ(partners.size(), static_cast<size_t>(count));
      if (count == 64) shifts.insert(plan.shift);
    }
  }
  EXPECT_GT(shifts.size(), 50u);  // 200 draws out of 63 values leave out 2.6 values on average
}

TEST(BatchPlanTest, DependsOnSeedEpochAndBatchAlone) {
  const BatchPlan plan = batch_plan(kCutmix, 1, 2, 3, 64, 32, 32);
  EXPECT_TRUE(same(plan, batch_plan(kCutmix, 1, 2, 3, 64, 32, 32)));
  EXPECT_FALSE(same(plan, batch_plan(kCutmix, 2, 2, 3, 64, 32, 32)));
  EXPECT_FALSE(same(plan, batch_plan(kCutmix, 1, 3, 3, 64, 32, 32)));
  EXPECT_FALSE(same(plan, batch_plan(kCutmix, 1, 2, 4, 64, 32, 32)));
}

TEST(BatchPlanTest, OneSampleIsLeftAlone) {
  for (const BatchMix& mix : {kMixup, kCutmix, BatchMix{}})
    EXPECT_EQ(batch_plan(mix, 1, 0, 0, 1, 8, 8).kind, BatchMix::Kind::kNone);
  EXPECT_EQ(batch_plan({}, 1, 0, 0, 64, 8, 8).kind, BatchMix::Kind::kNone);
}

/// The mean of Beta(a, a) is 1/2, its variance 1 / (4 (2a + 1)), and its fourth central moment 3 / (16 (2a + 1)(2a +
/// 3)).
TEST(BatchPlanTest, WeightsHaveTheMomentsOfBeta) {
  constexpr int kCount = 40000;
  for (const double alpha : {0.05, 0.2, 1.0, 3.0, 50.0}) {
    double sum = 0, square_sum = 0, fourth_sum = 0;
    for (uint64_t batch = 0; batch < kCount; ++batch) {
      const float weight = batch_plan({BatchMix::Kind::kMixup, alpha}, 9, 0, batch, 64, 8, 8).mix_weight;
      ASSERT_TRUE(weight >= 0 && weight <= 1) << alpha;
      const double deviation = weight - 0.5, square = deviation * deviation;
      sum += deviation, square_sum += square, fourth_sum += square * square;
    }
    const double variance = 1 / (4 * (2 * alpha + 1)), fourth = 3 / (16 * (2 * alpha + 1) * (2 * alpha + 3));
    EXPECT_NEAR(sum / kCount, 0, 5 * std::sqrt(variance / kCount)) << alpha;
    EXPECT_NEAR(square_sum / kCount, variance, 5 * std::sqrt((fourth - variance * variance) / kCount)) << alpha;
    EXPECT_NEAR(fourth_sum / kCount / fourth, 1, 0.06) << alpha;
  }
}

TEST(BatchPlanTest, CutmixWeightIsTheShareOutsideTheRectangle) {
  for (uint64_t batch = 0; batch < 2000; ++batch) {
    const BatchPlan plan = batch_plan(kCutmix, 1, 0, batch, 64, 20, 26);
    const Region& rect = plan.rect;
    ASSERT_TRUE(rect.x >= 0 && rect.y >= 0 && rect.x + rect.width <= 26 && rect.y + rect.height <= 20);
    ASSERT_FLOAT_EQ(plan.mix_weight, 1 - rect.width * rect.height / 520.f);
  }
}

TEST(BatchPlanTest, CutmixRectanglesAreTorchvisions) {
  const auto golden = nlohmann::json::parse(std::ifstream(PENSTOCK_ROOT "/tests/golden/colors.json"));
  EXPECT_EQ(golden["cutmix"].size(), 6u);
  for (const auto& one : golden["cutmix"]) {
    const auto box = one["box"].get<std::array<int, 4>>();
    EXPECT_EQ(detail::cutmix_rect(one["weight"], one["column"], one["row"], one["height"], one["width"]),
              (Region{box[0], box[1], box[2] - box[0], box[3] - box[1]}));
  }
}

TEST(BatchPlanTest, SpecsAreReadAndRefused) {
  const auto mix = [](const char* text) { return Pipeline(text, {}).batch_mix(); };
  EXPECT_EQ(mix("").kind, BatchMix::Kind::kNone);
  EXPECT_EQ(mix("flip,normalize").kind, BatchMix::Kind::kNone);
  EXPECT_EQ(mix("mixup").kind, BatchMix::Kind::kMixup);
  EXPECT_EQ(mix("mixup").alpha, 0.2);
  EXPECT_EQ(mix("flip,cutmix,normalize").kind, BatchMix::Kind::kCutmix);
  EXPECT_EQ(mix("cutmix").alpha, 1);
  EXPECT_EQ(mix("cutmix(alpha=0.5)").alpha, 0.5);
  const auto refusal = [](const char* text) -> std::string {
    try {
      Pipeline(text, {});
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(refusal("mixup(alpha=0)"), "transform mixup: alpha is 0; expected more than 0, up to 1000");
  EXPECT_THAT(refusal("mixup(beta=1)"), HasSubstr("unknown key \"beta\""));
  EXPECT_THAT(refusal("mixap"), HasSubstr("did you mean \"mixup\"?"));
  EXPECT_EQ(refusal("mixup,flip,mixup"), "transform mixup: occurs twice; expected at most one mixup and one cutmix");
  EXPECT_THAT(refusal("mixup,cutmix,mixup"), HasSubstr("transform mixup: occurs twice"));
  EXPECT_EQ(refusal("cutmix(switch=0.5)"),
            "transform cutmix: has the key switch, and the list no mixup; expected both, or no switch");
  EXPECT_EQ(refusal("mixup,cutmix(switch=2)"), "transform cutmix: switch is 2; expected 0 to 1");
  EXPECT_EQ(refusal("mixup(off-epoch=0)"), "transform mixup: off-epoch is 0; expected 1 or more");
  EXPECT_EQ(refusal("mixup(off-epoch=3),cutmix"),
            "transform cutmix: off-epoch is none, and that of mixup is 3; expected the same of both");
}

TEST(BatchPlanTest, AListWithBothSwitchesBetweenThem) {
  for (const char* text :
       {"mixup(alpha=0.8),cutmix(alpha=2,switch=0.3)", "cutmix(alpha=2,switch=0.3),mixup(alpha=0.8)"}) {
    const BatchMix both = Pipeline(text, {}).batch_mix();
    EXPECT_EQ(both.alpha, 0.8);
    EXPECT_EQ(both.switched_alpha, 2);
    constexpr int kCount = 20000;
    int cut = 0;
    double squares = 0;  // of the deviations of mixup's weights
    for (uint64_t batch = 0; batch < kCount; ++batch) {
      const BatchPlan plan = batch_plan(both, 3, 0, batch, 64, 32, 32);
      ASSERT_NE(plan.kind, BatchMix::Kind::kNone);
      ASSERT_EQ(plan.shift, batch_plan({BatchMix::Kind::kMixup, 0.8}, 3, 0, batch, 64, 32, 32).shift);
      cut += plan.kind == BatchMix::Kind::kCutmix;
      if (plan.kind == BatchMix::Kind::kMixup)
        squares += (plan.mix_weight - 0.5) * (plan.mix_weight - 0.5);
      else
        ASSERT_FLOAT_EQ(plan.mix_weight, 1 - plan.rect.width * plan.rect.height / 1024.f);
    }
    EXPECT_NEAR(cut, 0.3 * kCount, 4.5 * std::sqrt(0.3 * 0.7 * kCount));
    EXPECT_NEAR(squares / (kCount - cut), 1 / (4 * (2 * 0.8 + 1)), 0.004);  // the variance of Beta(0.8, 0.8)
  }
  EXPECT_EQ(Pipeline("mixup,cutmix", {}).batch_mix().switch_chance, 0.5);
  const BatchMix never = Pipeline("mixup(alpha=1),cutmix(switch=0)", {}).batch_mix();
  const BatchMix always = Pipeline("mixup,cutmix(switch=1)", {}).batch_mix();
  for (uint64_t batch = 0; batch < 100; ++batch) {
    EXPECT_TRUE(
        same(batch_plan(never, 1, 0, batch, 8, 8, 8), batch_plan({BatchMix::Kind::kMixup, 1}, 1, 0, batch, 8, 8, 8)));
    EXPECT_EQ(batch_plan(always, 1, 0, batch, 8, 8, 8).kind, BatchMix::Kind::kCutmix);
  }
}

TEST(BatchPlanTest, NothingIsMixedFromOffEpochOn) {
  for (const char* text : {"mixup(off-epoch=3)", "cutmix(off-epoch=3)", "mixup(off-epoch=3),cutmix(off-epoch=3)"}) {
    const BatchMix mix = Pipeline(text, {}).batch_mix();
    for (uint32_t epoch = 0; epoch < 6; ++epoch)
      EXPECT_EQ(batch_plan(mix, 1, epoch, 0, 64, 8, 8).kind == BatchMix::Kind::kNone, epoch >= 3) << text << epoch;
  }
}

template <class T>
std::vector<uint8_t> bytes_of(const std::vector<T>& elements) {
  std::vector<uint8_t> bytes(elements.size() * sizeof(T));
  std::memcpy(bytes.data(), elements.data(), bytes.size());
  return bytes;
}

/// The values as the bytes of a row in this layout.
std::vector<uint8_t> stored(const std::vector<float>& values, Layout layout) {
  if (element_bytes(layout) == 4) return bytes_of(values);
  std::vector<uint16_t> halves;
  std::vector<uint8_t> levels;
  const bool is_f16 = layout == Layout::kF16Nchw || layout == Layout::kF16Nhwc;
  for (const float value : values) {
    halves.push_back(is_f16 ? detail::f16_bits(value) : detail::bf16_bits(value));
    levels.push_back(static_cast<uint8_t>(std::nearbyint(std::clamp(value, 0.f, 255.f))));
  }
  return element_bytes(layout) == 2 ? bytes_of(halves) : levels;
}

/// Random values that the layout holds exactly: small whole numbers for u8, with a sign and a fraction for the others.
std::vector<float> random_values(size_t count, Layout layout, Rng& rng) {
  std::vector<float> values;
  for (size_t i = 0; i < count; ++i) {
    const int whole = rng.between(0, 127);
    const float sign = rng.chance(0.5) ? -1.f : 1.f;
    values.push_back(layout == Layout::kU8Nhwc ? static_cast<float>(whole)
                                               : sign * std::ldexp(static_cast<float>(whole), rng.between(-20, -5)));
  }
  return values;
}

class MixTargetTest : public testing::TestWithParam<std::string> {};

TEST_P(MixTargetTest, MixupBlendsEveryElementInEveryLayout) {
  const ForcedTarget target(GetParam());
  Rng rng(31, 0, 0, 0);
  for (int trial = 0; trial < 200; ++trial) {
    const Extent extent{rng.between(1, 9), rng.between(1, 20), rng.chance(0.5) ? 1 : 3};
    const size_t count = static_cast<size_t>(extent.height) * extent.width * extent.channels;
    const BatchPlan plan = batch_plan({BatchMix::Kind::kMixup, 1}, 1, 0, trial, 8, extent.height, extent.width);
    for (int k = 0; k <= static_cast<int>(Layout::kBf16Nhwc); ++k) {
      const auto layout = static_cast<Layout>(k);
      const auto a = random_values(count, layout, rng), b = random_values(count, layout, rng);
      std::vector<float> mixed;
      for (size_t i = 0; i < count; ++i) mixed.push_back(plan.mix_weight * a[i] + (1 - plan.mix_weight) * b[i]);
      auto row = stored(a, layout);
      mix_row(plan, layout, extent, stored(b, layout).data(), row.data());
      ASSERT_EQ(row, stored(mixed, layout)) << "layout " << k << ", trial " << trial;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllTargets, MixTargetTest, testing::ValuesIn(render_targets()),
                         [](const auto& info) { return info.param; });

TEST(MixRowTest, CutmixCopiesTheRectangleInPlanesAndInPixels) {
  const Extent extent{4, 5, 3};
  const BatchPlan plan{.kind = BatchMix::Kind::kCutmix, .rect = {1, 2, 3, 2}};
  for (const Layout layout : {Layout::kF32Nchw, Layout::kU8Nhwc, Layout::kBf16Nhwc, Layout::kF16Nchw}) {
    std::vector<float> expected;
    for (int i = 0; i < 60; ++i) {
      const int pixel = is_planar(layout) ? i % 20 : i / 3, y = pixel / 5, x = pixel % 5;
      expected.push_back(y >= 2 && x >= 1 && x < 4 ? 2.f : 1.f);
    }
    auto row = stored(std::vector<float>(60, 1.f), layout);
    mix_row(plan, layout, extent, stored(std::vector<float>(60, 2.f), layout).data(), row.data());
    EXPECT_EQ(row, stored(expected, layout)) << static_cast<int>(layout);
  }
}

}  // namespace
}  // namespace penstock
