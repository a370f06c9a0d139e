// affine: random rotation, translation, scale and shear about the picture's centre, as torchvision's RandomAffine
// (0.26).
//
// Deviations: coordinates inside the picture repeat its edge, and those outside take fill. That is Pillow's rule, not
// the rule of torchvision on tensors (see Sampler). The last affine of a list sets the fill of all of them, because
// there is only one resample.
#include <cmath>
#include <memory>

#include "augment/plan/affine_map.h"
#include "augment/transform.h"
#include "augment/transforms/arguments.h"
#include "augment/transforms/filter_choice.h"

namespace penstock {
namespace {

struct AffineRanges {
  Range degrees, scale{1, 1}, shear_x, shear_y;
  double translate_x = 0, translate_y = 0;  // fractions of width and height
  bool shears_y = false;
};

class RandomAffine final : public Transform {
 public:
  RandomAffine(const AffineRanges& ranges, detail::FilterChoice filter, float fill)
      : ranges_(ranges), filter_(filter), fill_(fill) {}

  void edit(Plan& plan, Rng& rng) const override {
    AffineParameters drawn;
    drawn.degrees = rng.uniform(ranges_.degrees.low, ranges_.degrees.high);
    drawn.translate_x = pixels(ranges_.translate_x * plan.output_width, rng);
    drawn.translate_y = pixels(ranges_.translate_y * plan.output_height, rng);
    drawn.scale = rng.uniform(ranges_.scale.low, ranges_.scale.high);
    drawn.shear_x = rng.uniform(ranges_.shear_x.low, ranges_.shear_x.high);
    if (ranges_.shears_y) drawn.shear_y = rng.uniform(ranges_.shear_y.low, ranges_.shear_y.high);
    plan.resample(affine_map(drawn, plan.output_height, plan.output_width), plan.output_height, plan.output_width);
    plan.fill = {fill_, fill_, fill_};
    detail::use_filter(plan, filter_, rng);
  }

 private:
  /// Draws a whole number of pixels, rounded half to even as by Python's round().
  static double pixels(double limit, Rng& rng) { return std::nearbyint(rng.uniform(-limit, limit)); }

  AffineRanges ranges_;
  detail::FilterChoice filter_;
  float fill_;  // level
};

void read_shear(const Spec& spec, AffineRanges& ranges) {
  const auto values = detail::numbers(spec, "shear", {1, 2, 4});
  ranges.shear_x = detail::angles(spec, "shear", values.size() == 4 ? std::vector{values[0], values[1]} : values);
  ranges.shears_y = values.size() == 4;
  if (ranges.shears_y) ranges.shear_y = detail::angles(spec, "shear", {values[2], values[3]});
  for (const double value : values)
    if (std::fabs(value) >= 90)
      throw config_error(concat(spec.where(), ": shear is ", value, "; expected degrees above -90 and below 90"));
}

std::unique_ptr<Transform> make(const Spec& spec, const DataStatistics& statistics) {
  AffineRanges ranges;
  ranges.degrees = detail::angles(spec, "degrees", detail::numbers(spec, "degrees", {1, 2}));
  const auto translate = detail::numbers(spec, "translate", {1, 2});
  for (const double fraction : translate)
    if (fraction < 0 || fraction > 1)
      throw config_error(concat(spec.where(), ": translate is ", fraction, "; expected fractions of the size, 0 to 1"));
  ranges.translate_x = translate.front();
  ranges.translate_y = translate.back();
  ranges.scale = spec.get("scale", Range{1, 1});
  if (ranges.scale.low <= 0)
    throw config_error(concat(spec.where(), ": scale is ", ranges.scale.low, "; expected more than 0"));
  read_shear(spec, ranges);
  return std::make_unique<RandomAffine>(ranges, detail::filter(spec, "nearest", false),
                                        detail::level(spec, "fill", 0, statistics));
}

const Registered<TransformKind> kRegistered{
    "affine",
    {"degrees", "translate", "scale", "shear", "filter", "interpolation", "fill"},
    "rotate, translate, scale and shear at random: degrees=D (-D to D) or low:high (default 0), translate=F or Fx:Fy, "
    "at most this fraction of width and height (0), scale=low:high (1:1), shear=D, low:high or xlow:xhigh:ylow:yhigh "
    "in degrees (0), interpolation=nearest|bilinear|bicubic|random (nearest), fill=LEVEL from 0 to 255 (0)",
    make,
    {.test_spec = "affine(degrees=30,shear=9,interpolation=bilinear)"}};

}  // namespace
}  // namespace penstock
