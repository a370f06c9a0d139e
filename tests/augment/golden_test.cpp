// Compares transforms with torchvision: tests/golden/transforms.json, which make_golden.py writes.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "augment/plan/affine_map.h"
#include "augment/transform.h"
#include "tests/augment/pictures.h"

namespace penstock {
namespace {

using nlohmann::json;
using test::is_tie, test::kLevels;

class GoldenTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    golden_ = new json(json::parse(std::ifstream(PENSTOCK_ROOT "/tests/golden/transforms.json")));
    for (const auto& [name, picture] : (*golden_)["pictures"].items())
      pixels_[name] = picture["pixels"].get<std::vector<uint8_t>>();
  }

  static std::vector<json> cases(const std::string& kind) {
    std::vector<json> found;
    for (const auto& one : (*golden_)["cases"])
      if (one["kind"] == kind) found.push_back(one);
    return found;
  }

  static Picture picture_of(const json& one) {
    const auto& picture = (*golden_)["pictures"][one["picture"].get<std::string>()];
    const int height = picture["height"], width = picture["width"];
    const auto& pixels = pixels_[one["picture"]];
    const int channels = static_cast<int>(pixels.size()) / (height * width);
    return {.pixels = pixels.data(),
            .row_stride = static_cast<ptrdiff_t>(width) * channels,
            .height = height,
            .width = width,
            .channels = channels};
  }

  /// H x W x C, the order of the expected values.
  static std::vector<float> interleaved(const Picture& picture, const Plan& plan, const Normalization& to) {
    const auto bytes = test::rendered(picture, plan, to, Layout::kF32Nchw);
    const size_t plane = static_cast<size_t>(plan.output_height) * plan.output_width;
    std::vector<float> planes(plane * picture.channels), out(planes.size());
    std::memcpy(planes.data(), bytes.data(), bytes.size());
    for (size_t i = 0; i < out.size(); ++i) out[i] = planes[i % picture.channels * plane + i / picture.channels];
    return out;
  }

  static void expect_near(const json& one, const Picture& picture, const Plan& plan, const Normalization& to) {
    ASSERT_EQ(plan.output_height, one["height"].get<int>()) << one["kind"];
    ASSERT_EQ(plan.output_width, one["width"].get<int>()) << one["kind"];
    const auto made = interleaved(picture, plan, to);
    const auto expected = one["expected"].get<std::vector<float>>();
    const float tolerance = one["tolerance"];
    ASSERT_EQ(made.size(), expected.size());
    for (size_t i = 0; i < made.size(); ++i)
      ASSERT_NEAR(made[i], expected[i], tolerance)
          << one.value("spec", "erase") << " on " << one["picture"] << " at " << i;
  }

  static Pipeline pipeline_of(const json& one) {
    return Pipeline(one["spec"].get<std::string>(), {.channels = one["picture"] == "grey" ? 1 : 3});
  }

  static json* golden_;
  static std::map<std::string, std::vector<uint8_t>> pixels_;
};

json* GoldenTest::golden_ = nullptr;
std::map<std::string, std::vector<uint8_t>> GoldenTest::pixels_;

Plan affine_plan(const json& one, const Picture& picture) {
  Plan plan = Plan::identity(picture.height, picture.width);
  const AffineParameters parameters{.degrees = one["degrees"],
                                    .translate_x = one["translate"][0],
                                    .translate_y = one["translate"][1],
                                    .scale = one["scale"],
                                    .shear_x = one["shear"][0],
                                    .shear_y = one["shear"][1]};
  plan.resample(affine_map(parameters, picture.height, picture.width), picture.height, picture.width);
  const float fill = one["fill"];
  plan.fill = {fill, fill, fill};
  plan.filter = one["interpolation"] == "bilinear" ? Filter::kBilinear : Filter::kNearest;
  return plan;
}

TEST_F(GoldenTest, NearestAffineEqualsPillowButForRoundingTies) {
  int pixel_count = 0, tie_count = 0;
  for (const auto& one : cases("affine")) {
    if (one["interpolation"] != "nearest") continue;
    const Picture picture = picture_of(one);
    const Plan plan = affine_plan(one, picture);
    const auto made = interleaved(picture, plan, kLevels);
    const auto expected = one["expected"].get<std::vector<float>>();
    ASSERT_EQ(made.size(), expected.size());
    for (size_t i = 0; i < made.size(); ++i, ++pixel_count) {
      if (made[i] == expected[i]) continue;
      ++tie_count;
      EXPECT_TRUE(is_tie(plan, i / picture.channels))
          << "made " << made[i] << ", Pillow " << expected[i] << " at " << i << " of degrees " << one["degrees"]
          << " scale " << one["scale"] << " on " << one["picture"];
    }
  }
  EXPECT_GT(pixel_count, 20000);
  EXPECT_LE(tie_count, pixel_count / 500) << "of " << pixel_count << " levels";
}

TEST_F(GoldenTest, BilinearAffineIsWithinOneLevelOfPillow) {
  // Pillow truncates the interpolated level to a whole one, so that ours is in [expected, expected + 1).
  int level_count = 0, tie_count = 0;
  for (const auto& one : cases("affine")) {
    if (one["interpolation"] != "bilinear") continue;
    const Picture picture = picture_of(one);
    const Plan plan = affine_plan(one, picture);
    const auto made = interleaved(picture, plan, kLevels);
    const auto expected = one["expected"].get<std::vector<float>>();
    ASSERT_EQ(made.size(), expected.size());
    for (size_t i = 0; i < made.size(); ++i, ++level_count) {
      if (made[i] > expected[i] - 2e-3 && made[i] < expected[i] + 1.002) continue;
      ++tie_count;  // just inside or just outside of the picture
      EXPECT_TRUE(is_tie(plan, i / picture.channels))
          << "made " << made[i] << ", Pillow " << expected[i] << " at " << i << " of degrees " << one["degrees"]
          << " scale " << one["scale"] << " on " << one["picture"];
    }
  }
  EXPECT_GT(level_count, 20000);
  EXPECT_LE(tie_count, level_count / 500) << "of " << level_count << " levels";
}

TEST_F(GoldenTest, SpecsWithFixedParametersEqualTorchvision) {
  const auto found = cases("spec");
  EXPECT_EQ(found.size(), 46u);
  for (const auto& one : found) {
    const Picture picture = picture_of(one);
    expect_near(one, picture, pipeline_of(one).plan(picture.height, picture.width, 1, 0, 0), kLevels);
  }
}

TEST_F(GoldenTest, NormalizeEqualsTorchvision) {
  const auto found = cases("normalize");
  EXPECT_EQ(found.size(), 2u);
  for (const auto& one : found) {
    const Picture picture = picture_of(one);
    const Pipeline pipeline = pipeline_of(one);
    expect_near(one, picture, pipeline.plan(picture.height, picture.width, 1, 0, 0), pipeline.normalization());
  }
}

TEST_F(GoldenTest, EraseEqualsTorchvision) {
  const auto found = cases("erase");
  EXPECT_EQ(found.size(), 2u);
  for (const auto& one : found) {
    const Picture picture = picture_of(one);
    Plan plan = Plan::identity(picture.height, picture.width);
    const float level = one["value"].get<float>() * 255;
    const auto rect = one["rect"].get<std::array<int, 4>>();
    plan.erase({rect[0], rect[1], rect[2], rect[3], {level, level, level}});
    expect_near(one, picture, plan, kLevels);
  }
}

TEST_F(GoldenTest, AffineWithDegenerateRangesIsAffineMap) {
  const Pipeline pipeline("affine(degrees=30:30,scale=0.8,shear=5:5:-3:-3,interpolation=bilinear,fill=9)", {});
  const Plan plan = pipeline.plan(28, 20, 1, 2, 3);
  const Affine expected = affine_map({.degrees = 30, .scale = 0.8, .shear_x = 5, .shear_y = -3}, 28, 20);
  for (const auto entry : {&Affine::xx, &Affine::xy, &Affine::x0, &Affine::yx, &Affine::yy, &Affine::y0})
    EXPECT_DOUBLE_EQ(plan.map.*entry, expected.*entry);
  EXPECT_EQ(plan.filter, Filter::kBilinear);
  EXPECT_EQ(plan.fill, (std::array<float, 3>{9, 9, 9}));
}

}  // namespace
}  // namespace penstock
