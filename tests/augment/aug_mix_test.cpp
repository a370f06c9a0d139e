// aug-mix: its chains and mixture against torchvision's (tests/golden/aug_mix.json, which make_aug_mix.py writes), what
// is drawn, and what is refused.
#include "augment/draws/aug_mix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>
#include <vector>

#include "augment/transform.h"
#include "core/error.h"
#include "tests/augment/golden.h"
#include "tests/augment/refusal.h"

namespace penstock {
namespace {

using nlohmann::json;
using testing::HasSubstr;

std::string aug_mix_refusal(const std::string& list) { return test::refusal(list, {.channels = 3}); }

Plan golden_mixture(const json& one, const Picture& picture) {
  Plan plan = Plan::identity(picture.height, picture.width);
  std::vector<Chain> chains;
  for (const auto& chain : one["chains"]) {
    std::vector<detail::AugMixDraw> draws;
    for (const auto& [index, bin, is_negative] : chain["ops"].get<std::vector<std::tuple<size_t, int, bool>>>())
      draws.push_back({detail::kAugMixOps[index], bin, is_negative});
    chains.push_back(detail::aug_mix_chain(chain["share"], draws, plan, Filter::kNearest, 0));
  }
  plan.mix(one["own_share"], std::move(chains));
  return plan;
}

/// Whether a stage has a pixel whose centre falls between two pixels, which torchvision may round otherwise.
bool has_tie(const Plan& plan) {
  for (const Chain& chain : *plan.chains)
    for (const Plan& stage : chain.stages)
      for (size_t pixel = 0; pixel < static_cast<size_t>(stage.output_height * stage.output_width); ++pixel)
        if (test::is_tie(stage, pixel)) return true;
  return false;
}

TEST(AugMixGoldenTest, MixturesEqualTorchvisionOnBytes) {
  const json golden = test::read_golden("aug_mix.json");
  int tie_count = 0;
  for (const auto& one : golden["cases"]) {
    const auto picture = test::golden_picture(golden, one["picture"]);
    const Plan plan = golden_mixture(one, picture.view);
    if (has_tie(plan) && ++tie_count) continue;
    const auto made = test::levels_of(picture.view, plan), expected = one["u8"].get<std::vector<float>>();
    ASSERT_EQ(made.size(), expected.size());
    for (size_t i = 0; i < made.size(); ++i)
      ASSERT_NEAR(made[i], expected[i], 1) << "at " << i << " of " << one["chains"];
  }
  EXPECT_EQ(golden["cases"].size(), 96u);
  EXPECT_LE(tie_count, 24);
}

Plan mixed_plan(const std::string& list, uint64_t id) { return Pipeline(list, {.channels = 3}).plan(64, 96, 1, 0, id); }

TEST(AugMixTest, SharesAddUpToOneAndAreDistributedAsDirichlets) {
  const Pipeline pipeline("aug-mix(alpha=2,mixture-width=4)", {.channels = 3});
  constexpr int kCount = 20000;
  double own = 0, own_squares = 0, first = 0, first_squares = 0;
  for (uint64_t id = 0; id < kCount; ++id) {
    const Plan plan = pipeline.plan(8, 8, 1, 0, id);
    float sum = plan.share;
    for (const Chain& chain : *plan.chains) {
      ASSERT_GE(chain.share, 0);
      sum += chain.share;
    }
    ASSERT_EQ(sum, 1);
    ASSERT_EQ(plan.chains->size(), 4u);
    own += plan.share, own_squares += plan.share * plan.share;
    const double part = (*plan.chains)[0].share / (1 - plan.share);
    first += part, first_squares += part * part;
  }
  // Beta(2, 2) has the mean 1/2 and the variance 1/20; a part of Dirichlet(2, 2, 2, 2) 1/4 and 1/48.
  EXPECT_NEAR(own / kCount, 0.5, 4.5 * std::sqrt(1. / 20 / kCount));
  EXPECT_NEAR(own_squares / kCount, 0.25 + 1. / 20, 0.008);
  EXPECT_NEAR(first / kCount, 0.25, 4.5 * std::sqrt(1. / 48 / kCount));
  EXPECT_NEAR(first_squares / kCount, 1. / 16 + 1. / 48, 0.004);
}

/// How often each operation of chains of one operation has been drawn, by its name, and shears by their bins.
struct AugMixCounts {
  std::map<std::string, int> names;
  std::map<int, int> shear_bins;
};

AugMixCounts drawn_operations(const std::string& list, uint64_t count) {
  AugMixCounts counts;
  const Pipeline pipeline(list, {.channels = 3});
  for (uint64_t id = 0; id < count; ++id) {
    const Plan plan = pipeline.plan(64, 96, 1, 0, id);
    for (const Chain& chain : *plan.chains) {
      const Plan& stage = chain.stages.at(0);
      const Affine& m = stage.map;
      if (stage.color_step_count > 0)
        ++counts.names["colour " + std::to_string(static_cast<int>(stage.color_steps[0].op))];
      else if (m.xx == 1 && m.xy != 0)
        ++counts.names["shear-x"], ++counts.shear_bins[static_cast<int>(std::lround(m.xy / 0.3 * 9))];
      else
        ++counts.names[m.xx != 1 ? "rotate" : m.yx != 0 ? "shear-y" : m.x0 != 0 ? "translate-x" : "others"];
    }
  }
  return counts;
}

TEST(AugMixTest, OperationsAndMagnitudesAreDrawnEvenly) {
  constexpr int kCount = 13000;  // of 3 chains: 3,000 of each operation
  const auto near = [](int count, double expected) { return std::fabs(count - expected) <= 4.5 * std::sqrt(expected); };
  AugMixCounts all = drawn_operations("aug-mix(chain-depth=1,severity=4)", kCount);
  for (const int op : {0, 1, 2, 4, 5, 6, 7, 8}) {
    const int count = all.names["colour " + std::to_string(op)];
    EXPECT_TRUE(near(count, 3000)) << op << " " << count;
  }
  // Bins 0 to 3 with both signs; a shear by 0 is among the others.
  for (const int bin : {-3, -2, -1, 1, 2, 3}) EXPECT_TRUE(near(all.shear_bins[bin], 375)) << bin;
  EXPECT_EQ(all.shear_bins.size(), 6u);
  EXPECT_TRUE(near(all.names["rotate"], 2250) && near(all.names["shear-y"], 2250)) << all.names["rotate"];
  AugMixCounts few = drawn_operations("aug-mix(chain-depth=1,all-ops=false)", 3000);
  for (const int op : {5, 6, 7, 8}) EXPECT_TRUE(near(few.names["colour " + std::to_string(op)], 1000)) << op;
  for (const int op : {0, 1, 2, 4}) EXPECT_EQ(few.names.count("colour " + std::to_string(op)), 0u) << op;
}

TEST(AugMixTest, ChainsHaveOneToThreeOperationsAndAMoveBeginsAStage) {
  std::map<int, int> colour_counts;
  const Pipeline pipeline("aug-mix(mixture-width=1,filter=nearest,fill=7)", {.channels = 3});
  for (uint64_t id = 0; id < 9000; ++id) {
    const Plan plan = pipeline.plan(64, 96, 1, 0, id);
    const Chain& chain = plan.chains->at(0);
    ASSERT_GE(chain.stages.size(), 1u);
    ASSERT_LE(chain.stages.size(), 3u);
    int steps = 0;
    for (const Plan& stage : chain.stages) {
      steps += stage.color_step_count;
      ASSERT_EQ(stage.filter, Filter::kNearest);
      ASSERT_EQ(stage.fill[0], 7);
      for (int i = 0; i < stage.color_step_count; ++i) ASSERT_EQ(stage.color_steps[i].rounding, Rounding::kTensor);
    }
    ++colour_counts[steps];
  }
  // Three colours: one of three depths, and 8 of 13 operations are colours.
  const double three = 9000 / 3. * std::pow(8 / 13., 3);
  EXPECT_NEAR(colour_counts[3], three, 4.5 * std::sqrt(three));
  EXPECT_EQ(colour_counts.rbegin()->first, 3);
}

TEST(AugMixTest, AChainOfNothingLeavesThePictureAndErasedRectanglesComeLast) {
  Rng rng(1, 0, 0, 0);
  const auto picture = test::noise_picture(9, 7, 3, rng);
  Plan plan = Plan::identity(9, 7);
  const auto own = test::levels_of(picture.view, plan);
  plan.mix(0.3125, {{.share = 0.6875, .stages = {}}});
  EXPECT_EQ(test::levels_of(picture.view, plan), own);
  plan.erase({.top = 0, .left = 0, .bottom = 9, .right = 7, .level = {3, 4, 5}});
  EXPECT_EQ(test::levels_of(picture.view, plan)[4], 4);
}

TEST(AugMixTest, IsARefusedPlaceForWhatWouldChangeTheMixture) {
  EXPECT_EQ(mixed_plan("random-resized-crop(size=32),flip,aug-mix,normalize,erase,mixup", 0).output_height, 32);
  for (const char* after : {"flip", "grayscale", "aug-mix", "rotate(degrees=5)"})
    EXPECT_THAT(aug_mix_refusal(std::string("aug-mix,") + after), HasSubstr("comes after aug-mix, whose mixture"));
  EXPECT_THAT(aug_mix_refusal("apply(list={aug-mix})"), HasSubstr("its list has aug-mix"));
  EXPECT_THAT(aug_mix_refusal("erase,aug-mix"), HasSubstr("comes after erase"));
  EXPECT_THAT(test::refusal("aug-mix", {.channels = 4}), HasSubstr("expected 1 or 3 channels of u8"));
  Plan plan = Plan::identity(4, 4);
  plan.mix(1, {});
  EXPECT_THROW(plan.mix(1, {}), Error);
  EXPECT_THROW(plan.adjust(ColorOp::kBrightness, 1), Error);
  EXPECT_THROW(plan.resample({}, 4, 4), Error);
}

TEST(AugMixTest, RefusesBadArguments) {
  EXPECT_EQ(aug_mix_refusal("aug-mix(severity=0)"), "transform aug-mix: severity is 0; expected 1 to 10");
  EXPECT_EQ(aug_mix_refusal("aug-mix(mixture-width=9)"), "transform aug-mix: mixture-width is 9; expected 1 to 8");
  EXPECT_EQ(aug_mix_refusal("aug-mix(chain-depth=0)"),
            "transform aug-mix: chain-depth is 0; expected 1 to 8, or -1 for 1 to 3 at random");
  EXPECT_EQ(aug_mix_refusal("aug-mix(alpha=0)"), "transform aug-mix: alpha is 0; expected more than 0, up to 1000");
  EXPECT_THAT(aug_mix_refusal("aug-mix(width=2)"), HasSubstr("unknown key \"width\""));
}

}  // namespace
}  // namespace penstock
