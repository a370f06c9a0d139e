// Transforms and Pipeline: what is drawn, what is refused, and that a plan depends on (seed, epoch, id) alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <thread>

#include "augment/plan/affine_map.h"
#include "augment/transform.h"
#include "core/text.h"
#include "tests/augment/refusal.h"

namespace penstock {
namespace {

using test::refusal;
using testing::HasSubstr;

const DataStatistics kColor{.channels = 3, .mean = {0.49, 0.48, 0.45}, .deviation = {0.25, 0.24, 0.26}};

bool same(const Plan& a, const Plan& b) {
  const auto numbers = [](const Plan& p) {
    std::vector<double> all{p.map.xx, p.map.xy, p.map.x0, p.map.yx, p.map.yy, p.map.y0};
    for (const double v : {p.output_height, p.output_width, p.erased_count, static_cast<int>(p.filter),
                           static_cast<int>(p.border), p.inside.x, p.inside.y})
      all.push_back(v);
    for (const auto& r : p.erased)
      for (const double v : {r.top, r.left, r.bottom, r.right}) all.push_back(v);
    return all;
  };
  return numbers(a) == numbers(b);
}

TEST(PipelineTest, PlanDependsOnSeedEpochAndSampleAlone) {
  const Pipeline pipeline(
      "affine(degrees=20,translate=0.2,scale=0.8:1.2,shear=5),crop(pad=9,border=reflect),flip,erase(p=1)", {});
  const Pipeline copy = pipeline;
  std::vector<Plan> forwards(64), backwards(64);
  for (int i = 0; i < 64; ++i) forwards[i] = pipeline.plan(28, 28, 7, 3, i);
  std::thread other([&] {
    for (int i = 63; i >= 0; --i) backwards[i] = copy.plan(28, 28, 7, 3, i);
  });
  other.join();
  for (int i = 0; i < 64; ++i) EXPECT_TRUE(same(forwards[i], backwards[i])) << i;
  EXPECT_FALSE(same(forwards[0], forwards[1]));
  EXPECT_FALSE(same(forwards[0], pipeline.plan(28, 28, 8, 3, 0)));
  EXPECT_FALSE(same(forwards[0], pipeline.plan(28, 28, 7, 4, 0)));
}

TEST(PipelineTest, TransformDrawsFromItsOwnStream) {
  // A later transform does not change what a transform draws. Neither does the number of draws that an earlier one
  // takes.
  const Pipeline alone("shift(pad=9)", {}), followed("shift(pad=9),erase(p=1)", {});
  for (int i = 0; i < 50; ++i) EXPECT_EQ(alone.plan(28, 28, 1, 0, i).map.x0, followed.plan(28, 28, 1, 0, i).map.x0);
  const Pipeline behind_flip("flip(p=0),erase(p=1)", {}), behind_affine("affine(degrees=9,shear=3),erase(p=1)", {});
  for (int i = 0; i < 50; ++i)
    EXPECT_EQ(behind_flip.plan(28, 28, 1, 0, i).erased[0].top, behind_affine.plan(28, 28, 1, 0, i).erased[0].top);
  // Two transforms of the same kind draw different numbers. If they used one stream, every sum of the two shifts would
  // be even.
  const Pipeline twice("shift,shift", {});
  int odd_count = 0;
  for (int i = 0; i < 200; ++i) odd_count += std::lround(twice.plan(28, 28, 1, 0, i).map.x0) % 2 != 0;
  EXPECT_NEAR(odd_count, 99, 36);  // 40/81 of 200, 5 standard deviations
}

TEST(PipelineTest, EmptyListCopiesThePicture) {
  const Pipeline pipeline("", {});
  EXPECT_TRUE(same(pipeline.plan(5, 6, 1, 0, 0), Plan::identity(5, 6)));
  EXPECT_FALSE(pipeline.has_normalize());
  EXPECT_EQ(pipeline.text(), "");
  EXPECT_EQ(Pipeline(" flip( p = 0.25 ) , shift", {}).text(), "flip(p=0.25),shift");
}

TEST(PipelineTest, RefusesWhatCannotBeOneResample) {
  EXPECT_EQ(
      refusal("erase,flip"),
      "transform flip: comes after erase, whose rectangle it would have to move; expected every geometric transform "
      "before it");
  EXPECT_EQ(refusal("normalize,flip,normalize"), "transform normalize: occurs twice; expected at most one normalize");
  EXPECT_THAT(refusal("erase,erase,erase,erase,erase"), HasSubstr("occurs 5 times; expected at most 4"));
  EXPECT_EQ(Pipeline("erase(p=1),normalize,erase(p=1)", {}).plan(9, 9, 1, 0, 0).erased_count, 2);
}

TEST(PipelineTest, NamesUnknownTransformsAndKeys) {
  EXPECT_EQ(refusal("flop"),
            "unknown transform \"flop\"; did you mean \"flip\"? known: affine, alternating-flip, apply, aug-mix, "
            "auto-augment, "
            "auto-contrast, center-crop, choice, color-jitter, crop, cutmix, cutout, equalize, erase, flip, "
            "gaussian-blur, grayscale, invert, letterbox, mixup, normalize, posterize, rand-augment, random-iou-crop, "
            "random-resized-crop, resize, rgb, rotate, scale-jitter, sharpness, shift, solarize, three-augment, "
            "timm-rand-augment, trivial-augment, vflip");
  EXPECT_THAT(refusal("affine(degree=10)"),
              HasSubstr("transform affine: unknown key \"degree\"; did you mean \"degrees\"?"));
  EXPECT_THAT(refusal("flip(p=0.5"), HasSubstr("parenthes"));
}

TEST(PipelineTest, RgbGivesWhatFollowsItThreeChannels) {
  const DataStatistics grey{.channels = 1, .mean = {0.25}, .deviation = {0.5}};
  const Pipeline pipeline("flip,rgb,normalize", grey), plain("flip,normalize", grey);
  EXPECT_EQ(pipeline.channels(1), 3);
  EXPECT_EQ(plain.channels(1), 1);
  EXPECT_EQ(pipeline.statistics().channels, 3);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(pipeline.normalization().scale[i], plain.normalization().scale[0]) << i;
    EXPECT_EQ(pipeline.normalization().bias[i], plain.normalization().bias[0]) << i;
  }
  const DataStatistics color{.channels = 3, .mean = {0.1, 0.2, 0.3}, .deviation = {0.5, 0.6, 0.7}};
  EXPECT_EQ(Pipeline("rgb,normalize", color).normalization().bias, Pipeline("normalize", color).normalization().bias);
  EXPECT_EQ(refusal("grayscale,rgb"), "transform rgb: comes after grayscale; expected geometry alone before it");
  EXPECT_EQ(refusal("normalize,rgb"), "transform rgb: comes after normalize; expected geometry alone before it");
  EXPECT_EQ(refusal("rgb,rgb"), "transform rgb: comes after rgb; expected geometry alone before it");
  EXPECT_THAT(refusal("apply(list={rgb})"), HasSubstr("its list has rgb; expected transforms of geometry and colour"));
  EXPECT_EQ(refusal("rgb", {.channels = 1, .pixels = PixelType::kU16}),
            "transform rgb: pictures have 1 channel of u16; expected 1 or 3 channels of u8");
}

TEST(AffineTransformTest, DrawsWithinTheRangesAndReachesTheirEnds) {
  const Pipeline pipeline("affine(degrees=10,translate=0.1:0.2,scale=0.8:1.25)", {});
  double least_angle = 99, greatest_angle = -99, least_scale = 99, greatest_scale = 0, angle_sum = 0;
  std::set<double> shifts_x, shifts_y;
  constexpr int kCount = 4000;
  for (int i = 0; i < kCount; ++i) {
    const Affine m = pipeline.plan(30, 20, 5, 0, i).map;
    const double scale = 1 / std::hypot(m.xx, m.yx);
    const double angle = -std::atan2(m.yx, m.xx) * 180 / M_PI;
    // The point of the output to which the picture's centre (10, 15) is moved, minus the centre.
    const double det = m.xx * m.yy - m.xy * m.yx, dx = 10 - m.x0, dy = 15 - m.y0;
    shifts_x.insert(std::round((m.yy * dx - m.xy * dy) / det * 1e6) / 1e6 - 10);
    shifts_y.insert(std::round((m.xx * dy - m.yx * dx) / det * 1e6) / 1e6 - 15);
    least_angle = std::min(least_angle, angle), greatest_angle = std::max(greatest_angle, angle);
    least_scale = std::min(least_scale, scale), greatest_scale = std::max(greatest_scale, scale);
    angle_sum += angle;
  }
  EXPECT_GE(least_angle, -10.001);
  EXPECT_LT(least_angle, -9.9);
  EXPECT_LE(greatest_angle, 10.001);
  EXPECT_GT(greatest_angle, 9.9);
  EXPECT_NEAR(angle_sum / kCount, 0, 0.4);  // standard error 0.09
  EXPECT_GE(least_scale, 0.7999);
  EXPECT_LT(least_scale, 0.81);
  EXPECT_LE(greatest_scale, 1.2501);
  EXPECT_GT(greatest_scale, 1.24);
  // 0.1 of the width 20 and 0.2 of the height 30, in whole pixels.
  EXPECT_EQ(shifts_x, (std::set<double>{-2, -1, 0, 1, 2}));
  EXPECT_EQ(shifts_y, (std::set<double>{-6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6}));
}

TEST(AffineTransformTest, OneShearIsAlongXAndFourAreBoth) {
  const auto shear_of = [](const char* spec, int i) {
    const Affine m = Pipeline(spec, {}).plan(20, 20, 1, 0, i).map;  // for a shear alone, xy = tan(x) or yx = tan(y)
    return std::pair(m.xy, m.yx);
  };
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(shear_of("affine(shear=8)", i).second, 0);
    EXPECT_LE(std::fabs(shear_of("affine(shear=8)", i).first), std::tan(8 * M_PI / 180));
    EXPECT_GE(shear_of("affine(shear=4:6)", i).first, std::tan(4 * M_PI / 180) - 1e-12);
    EXPECT_NEAR(shear_of("affine(shear=0:0:7:7)", i).second, std::tan(7 * M_PI / 180), 1e-12);
  }
}

TEST(AffineTransformTest, RefusesBadArguments) {
  EXPECT_EQ(refusal("affine(degrees=-10)"), "transform affine: degrees is -10; expected 0 or more, or low:high");
  EXPECT_THAT(refusal("affine(degrees=10:5)"), HasSubstr("degrees is 10:5; expected low:high with low <= high"));
  EXPECT_THAT(refusal("affine(degrees=1:2:3)"), HasSubstr("degrees has 3 numbers; expected 1 or 2"));
  EXPECT_THAT(refusal("affine(degrees=ten)"), HasSubstr("degrees is \"ten\""));
  EXPECT_THAT(refusal("affine(translate=1.5)"), HasSubstr("translate is 1.5"));
  EXPECT_THAT(refusal("affine(scale=0:1)"), HasSubstr("scale is 0; expected more than 0"));
  EXPECT_THAT(refusal("affine(shear=1:2:3)"), HasSubstr("shear has 3 numbers; expected 1 or 2 or 4"));
  EXPECT_THAT(refusal("affine(shear=90)"), HasSubstr("shear is 90"));
  EXPECT_THAT(refusal("affine(fill=256)"), HasSubstr("fill is 256; expected a level from 0 to 255"));
  EXPECT_THAT(refusal("affine(interpolation=cubic)"),
              HasSubstr("interpolation is \"cubic\"; expected nearest, bilinear, bicubic or random"));
}

TEST(ShiftTest, MovesByWholePixelsUpToThePad) {
  const Pipeline pipeline("shift(pad=2)", {});
  std::set<std::pair<double, double>> seen;
  for (int i = 0; i < 1000; ++i) {
    const Plan plan = pipeline.plan(28, 28, 1, 0, i);
    seen.insert({plan.map.x0, plan.map.y0});
    EXPECT_EQ(plan.output_width, 28);
  }
  EXPECT_EQ(seen.size(), 25u);
  EXPECT_EQ(seen.begin()->first, -2);
  EXPECT_EQ(seen.rbegin()->first, 2);
  EXPECT_THAT(refusal("shift(pad=-1)"), HasSubstr("pad is -1"));
}

TEST(FlipTest, HappensWithProbabilityP) {
  const Pipeline pipeline("flip(p=0.25)", {});
  int count = 0;
  for (int i = 0; i < 8000; ++i) count += pipeline.plan(28, 28, 1, 0, i).map.xx < 0;
  EXPECT_NEAR(count, 2000, 200);  // 5 standard deviations
  EXPECT_EQ(refusal("flip(p=1.5)"), "transform flip: p is 1.5; expected 0 to 1");
  EXPECT_THAT(refusal("flip(p=-0.1)"), HasSubstr("p is -0.1"));
}

TEST(ResizeTest, ShorterSideKeepsTheAspectAsTorchvision) {
  const Pipeline pipeline("resize(size=256)", {});
  const Plan wide = pipeline.plan(375, 500, 1, 0, 0), tall = pipeline.plan(501, 334, 1, 0, 0);
  EXPECT_EQ(wide.output_height, 256);
  EXPECT_EQ(wide.output_width, 341);  // int(256 * 500 / 375)
  EXPECT_EQ(tall.output_height, 384);
  EXPECT_EQ(tall.output_width, 256);
  EXPECT_EQ(wide.filter, Filter::kAntialias);
  EXPECT_EQ(Pipeline("resize(size=9,interpolation=nearest)", {}).plan(5, 5, 1, 0, 0).filter, Filter::kNearest);
}

TEST(ResizeTest, RefusesBadArguments) {
  EXPECT_THAT(refusal("resize"), HasSubstr("expected size=PIXELS of the shorter side, or height=PIXELS,width=PIXELS"));
  EXPECT_THAT(refusal("resize(size=3,width=4)"), HasSubstr("expected size="));
  EXPECT_THAT(refusal("resize(width=4)"), HasSubstr("height and width are not both given"));
  EXPECT_THAT(refusal("resize(size=0)"), HasSubstr("size is 0; expected 1 to 65535 pixels"));
  EXPECT_THROW(Pipeline("resize(size=60000)", {}).plan(10, 20, 1, 0, 0), Error);
}

TEST(CenterCropTest, RefusesBadArguments) {
  EXPECT_THAT(refusal("center-crop"), HasSubstr("expected size=PIXELS, or height=PIXELS,width=PIXELS"));
  EXPECT_THAT(refusal("center-crop(size=-3)"), HasSubstr("size is -3"));
}

TEST(CompositionTest, OneBilinearTransformMakesThePlanBilinear) {
  const auto filter = [](const char* spec) { return Pipeline(spec, {}).plan(20, 20, 1, 0, 0).filter; };
  EXPECT_EQ(filter("affine(degrees=5),flip"), Filter::kNearest);
  EXPECT_EQ(filter("resize(size=9,filter=bilinear),affine(degrees=5)"), Filter::kBilinear);
  EXPECT_EQ(filter("affine(degrees=5,interpolation=bilinear),shift"), Filter::kBilinear);
  EXPECT_EQ(filter("rotate(degrees=5)"), Filter::kNearest);
  EXPECT_EQ(filter("rotate(degrees=5,filter=bilinear)"), Filter::kBilinear);
  EXPECT_EQ(filter("random-resized-crop(size=9,filter=nearest)"), Filter::kNearest);
  EXPECT_EQ(filter("random-resized-crop(size=9,filter=bilinear)"), Filter::kBilinear);
  // Five of trivial-augment's fourteen operations move pixels.
  const Pipeline trivial("trivial-augment(filter=bilinear)", {});
  int bilinear_count = 0;
  for (uint64_t id = 0; id < 1400; ++id) bilinear_count += trivial.plan(20, 20, 1, 0, id).filter == Filter::kBilinear;
  EXPECT_NEAR(bilinear_count, 500, 100);
}

TEST(InterpolationTest, NamesAreThoseOfPillow) {
  const auto filter = [](const std::string& spec) { return Pipeline(spec, {}).plan(20, 20, 1, 0, 0).filter; };
  for (const std::string transform :
       {"random-resized-crop(size=9", "resize(size=9", "scale-jitter(size=9", "letterbox(size=9"}) {
    EXPECT_EQ(filter(transform + ",interpolation=nearest)"), Filter::kNearest);
    EXPECT_EQ(filter(transform + ",interpolation=bilinear)"), Filter::kAntialias);
    EXPECT_EQ(filter(transform + ",filter=bilinear)"), Filter::kBilinear);
    EXPECT_EQ(filter(transform + ",interpolation=bicubic)"), Filter::kAntialiasBicubic);
    EXPECT_EQ(filter(transform + ",interpolation=lanczos)"), Filter::kAntialiasLanczos);
    EXPECT_EQ(filter(transform + ",interpolation=box)"), Filter::kAntialiasBox);
    EXPECT_EQ(filter(transform + ",interpolation=hamming)"), Filter::kAntialiasHamming);
    EXPECT_THAT(
        refusal(transform + ",interpolation=cubic)"),
        HasSubstr("interpolation is \"cubic\"; expected nearest, bilinear, bicubic, lanczos, box, hamming or random"));
    EXPECT_THAT(refusal(transform + ",filter=bicubic)"), HasSubstr("expected antialias, bilinear or nearest"));
    EXPECT_THAT(refusal(transform + ",filter=nearest,interpolation=bicubic)"),
                HasSubstr("filter and interpolation are given; expected one of them"));
  }
  for (const std::string transform : {"affine(degrees=9", "rotate(degrees=9"})
    for (const std::string name : {"lanczos", "box", "hamming"})
      EXPECT_THAT(refusal(transform + ",interpolation=" + name + ")"),
                  HasSubstr("interpolation is \"" + name + "\"; expected nearest, bilinear, bicubic or random"));
  EXPECT_EQ(filter("affine(degrees=5,interpolation=bicubic)"), Filter::kBicubic);
  EXPECT_EQ(filter("rotate(degrees=5,interpolation=bicubic)"), Filter::kBicubic);
  // Neither the antialiasing of one nor the bicubic of the other is lost.
  for (const std::string resize : {"bilinear", "box", "hamming", "bicubic"})
    EXPECT_EQ(filter("resize(size=9,interpolation=" + resize + "),affine(degrees=5,interpolation=bicubic)"),
              Filter::kAntialiasBicubic);
  EXPECT_EQ(filter("affine(degrees=5,interpolation=bicubic),resize(size=9)"), Filter::kAntialiasBicubic);
  EXPECT_EQ(filter("resize(size=9,interpolation=lanczos),affine(degrees=5,interpolation=bicubic)"),
            Filter::kAntialiasLanczos);
  EXPECT_EQ(filter("resize(size=9,interpolation=box),affine(degrees=5,interpolation=bilinear)"), Filter::kAntialiasBox);
  EXPECT_THAT(refusal("aug-mix(interpolation=random)", kColor),
              HasSubstr("interpolation is \"random\"; expected nearest, bilinear or bicubic"));
}

TEST(InterpolationTest, RandomDrawsBilinearOrBicubicAndNothingElseChanges) {
  const std::pair<const char*, Filter> kCases[] = {{"random-resized-crop(size=9", Filter::kAntialiasBicubic},
                                                   {"resize(size=9", Filter::kAntialiasBicubic},
                                                   {"scale-jitter(size=9", Filter::kAntialiasBicubic},
                                                   {"letterbox(size=9", Filter::kAntialiasBicubic},
                                                   {"affine(degrees=9", Filter::kBicubic},
                                                   {"rotate(degrees=9", Filter::kBicubic},
                                                   {"timm-rand-augment(config=rand-m9-n4-p1", Filter::kBicubic}};
  for (const auto& [transform, bicubic] : kCases) {
    const Pipeline random(concat(transform, ",interpolation=random)"), kColor),
        fixed(concat(transform, ",interpolation=bicubic)"), kColor);
    const Filter bilinear = bicubic == Filter::kBicubic ? Filter::kBilinear : Filter::kAntialias;
    int bicubic_count = 0, count = 0;
    for (uint64_t id = 0; id < 1000; ++id) {
      Plan plan = random.plan(40, 30, 7, 0, id);
      const Plan expected = fixed.plan(40, 30, 7, 0, id);
      if (expected.filter == Filter::kNearest) continue;  // a policy that moves nothing
      ++count;
      bicubic_count += plan.filter == bicubic;
      ASSERT_TRUE(plan.filter == bicubic || plan.filter == bilinear) << transform;
      plan.filter = bicubic;
      ASSERT_TRUE(same(plan, expected)) << transform;
    }
    EXPECT_NEAR(bicubic_count, count / 2, 80) << transform;
    EXPECT_FALSE(random.is_deterministic()) << transform;
  }
  EXPECT_TRUE(Pipeline("resize(size=9,interpolation=bicubic)", {}).is_deterministic());
  EXPECT_EQ(deterministic_part("resize(size=9,interpolation=random),letterbox(size=8,interpolation=bicubic)"),
            "resize(size=9),letterbox(size=8,interpolation=bicubic)");
  EXPECT_EQ(deterministic_part("random-resized-crop(size=224,interpolation=random)"),
            "resize(size=256),center-crop(size=224)");
  EXPECT_EQ(deterministic_part("scale-jitter(size=9,interpolation=random)"), "letterbox(fill=0,size=9)");
}

TEST(NormalizeTest, TakesTheDataSetsStatisticsByDefault) {
  const Pipeline pipeline("normalize", kColor);
  ASSERT_TRUE(pipeline.has_normalize());
  for (int i = 0; i < 3; ++i) {
    EXPECT_NEAR(pipeline.normalization().scale[i], 1 / (255 * kColor.deviation[i]), 1e-9);
    EXPECT_NEAR(pipeline.normalization().bias[i], -kColor.mean[i] / kColor.deviation[i], 1e-6);
  }
  const Pipeline given("normalize(mean=0.5,std=0.1:0.2:0.25)", kColor);
  EXPECT_NEAR(given.normalization().bias[2], -2, 1e-6);
}

TEST(NormalizeTest, RefusesBadArguments) {
  EXPECT_THAT(refusal("normalize(mean=0.5)"), HasSubstr("mean without std; expected both"));
  EXPECT_THAT(refusal("normalize(mean=0.5,std=0)"), HasSubstr("std of channel 0 is 0; expected more than 0"));
  EXPECT_THAT(refusal("normalize(mean=0.5:0.5,std=1)", kColor), HasSubstr("mean has 2 numbers; expected 1 or 3"));
  EXPECT_THAT(refusal("normalize(mean=0.5:0.5:0.5,std=1)"),
              HasSubstr("mean has 3 numbers; expected 1 for pictures of 1"));
}

TEST(NormalizeTest, OfAConstantChannelTheMeanAloneIsTakenAway) {
  const Pipeline pipeline("normalize", {.channels = 3, .mean = {0.5, 0.4, 1}, .deviation = {0.25, 0, 0.1}});
  EXPECT_FLOAT_EQ(pipeline.normalization().scale[1], 1 / 255.f);
  EXPECT_FLOAT_EQ(pipeline.normalization().bias[1], -0.4f);
  EXPECT_FLOAT_EQ(pipeline.normalization().scale[0], 4 / 255.f);
}

TEST(EraseTest, AreasAndRatiosAreThoseOfTorchvision) {
  const Pipeline pipeline("erase(p=1,scale=0.1:0.2,ratio=0.5:2,value=0.2:0.4:0.6)", kColor);
  int erased_count = 0;
  for (int i = 0; i < 500; ++i) {
    const Plan plan = pipeline.plan(100, 80, 1, 0, i);
    if (plan.erased_count == 0) continue;
    ++erased_count;
    const ErasedRect& rect = plan.erased[0];
    const double height = rect.bottom - rect.top, width = rect.right - rect.left;
    EXPECT_GE(rect.top, 0);
    EXPECT_GE(rect.left, 0);
    EXPECT_LE(rect.bottom, 100);
    EXPECT_LE(rect.right, 80);
    EXPECT_NEAR(height * width / 8000, 0.15, 0.056);  // each side may be rounded by half a pixel
    EXPECT_GT(height / width, 0.47);
    EXPECT_LT(height / width, 2.13);
    EXPECT_FLOAT_EQ(rect.level[1], 102);
  }
  EXPECT_EQ(erased_count, 500);
}

TEST(EraseTest, HappensWithProbabilityPAndRefusesBadArguments) {
  const Pipeline pipeline("erase(p=0.5)", {});
  int count = 0;
  for (int i = 0; i < 4000; ++i) count += pipeline.plan(28, 28, 1, 0, i).erased_count;
  EXPECT_NEAR(count, 2000, 160);  // 5 standard deviations
  EXPECT_THAT(refusal("erase(p=2)"), HasSubstr("p is 2"));
  EXPECT_THAT(refusal("erase(scale=0.5:1.5)"), HasSubstr("scale is 0.5:1.5"));
  EXPECT_THAT(refusal("erase(ratio=0:1)"), HasSubstr("ratio is 0; expected more than 0"));
  EXPECT_THAT(refusal("erase(value=1:2)"), HasSubstr("value has 2 numbers"));
}

}  // namespace
}  // namespace penstock
