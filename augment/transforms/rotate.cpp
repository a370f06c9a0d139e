// rotate: rotates counter-clockwise by a random angle about the picture's centre, as torchvision's RandomRotation
// (0.26) without expand. Coordinates outside the picture take fill, as in affine.
#include <memory>
#include <optional>

#include "augment/plan/affine_map.h"
#include "augment/transform.h"
#include "augment/transforms/arguments.h"
#include "augment/transforms/filter_choice.h"

namespace penstock {
namespace {

class Rotate final : public Transform {
 public:
  Rotate(Range degrees, detail::FilterChoice filter, std::optional<float> fill)
      : degrees_(degrees), filter_(filter), fill_(fill) {}

  void edit(Plan& plan, Rng& rng) const override {
    const double degrees = rng.uniform(degrees_.low, degrees_.high);
    plan.resample(affine_map({.degrees = -degrees}, plan.output_height, plan.output_width), plan.output_height,
                  plan.output_width);
    if (fill_) plan.fill.fill(*fill_);
    detail::use_filter(plan, filter_, rng);
  }

 private:
  Range degrees_;
  detail::FilterChoice filter_;
  std::optional<float> fill_;  // level; none: the plan's stays
};

std::unique_ptr<Transform> make(const Spec& spec, const DataStatistics& statistics) {
  if (!spec.has("degrees"))
    throw config_error(concat(spec.where(), ": degrees is not given; expected degrees=D or degrees=low:high"));
  const Range degrees = detail::angles(spec, "degrees", detail::numbers(spec, "degrees", {1, 2}));
  return std::make_unique<Rotate>(degrees, detail::filter(spec, "nearest", false), detail::fill(spec, statistics));
}

const Registered<TransformKind> kRegistered{"rotate",
                                            {"degrees", "filter", "interpolation", "fill"},
                                            "rotate by a random angle, counter-clockwise: degrees=D (-D to D) or "
                                            "low:high, interpolation=nearest|bilinear|bicubic|random "
                                            "(default nearest), fill=LEVEL from 0 to 255 (0)",
                                            make,
                                            {.test_spec = "rotate(degrees=30)"}};

}  // namespace
}  // namespace penstock
