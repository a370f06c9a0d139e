// resize: to a shorter side, keeping the aspect, or to a height and a width, as torchvision's Resize (0.26).
//
// Deviation: pixels are sampled at points (antialias=False), for a plan resamples once; far below half the size, a
// picture must come from the decoder at a reduced scale to stay free of aliasing.
#include <memory>

#include "augment/detail/arguments.h"
#include "augment/transform.h"

namespace penstock {
namespace {

class Resize final : public Transform {
 public:
  Resize(int shorter_side, int height, int width, Filter filter)
      : shorter_side_(shorter_side), height_(height), width_(width), filter_(filter) {}

  void edit(Plan& plan, Rng&) const override {
    int height = height_, width = width_;
    if (shorter_side_ > 0) {
      const bool is_tall = plan.output_width <= plan.output_height;
      const int64_t shorter = is_tall ? plan.output_width : plan.output_height;
      const int64_t longer = is_tall ? plan.output_height : plan.output_width;
      const int64_t scaled = shorter_side_ * longer / shorter;
      if (scaled > 65535)
        throw config_error(concat("transform resize: a picture of ", plan.output_width, "x", plan.output_height,
                                  " would become ", scaled, " pixels long; expected at most 65535"));
      const int longer_side = static_cast<int>(scaled);
      height = is_tall ? longer_side : shorter_side_;
      width = is_tall ? shorter_side_ : longer_side;
    }
    plan.resample(Affine::scaling(static_cast<double>(plan.output_width) / width,
                                  static_cast<double>(plan.output_height) / height),
                  height, width);
    detail::use_filter(plan, filter_);
  }

 private:
  int shorter_side_;  // pixels; 0 where height and width are given
  int height_, width_;
  Filter filter_;
};

std::unique_ptr<Transform> make(const Spec& spec, const DataStatistics&) {
  const Filter filter = detail::filter(spec, "interpolation", "bilinear");
  const bool has_size = spec.has("size"), has_height = spec.has("height"), has_width = spec.has("width");
  if (has_size ? has_height || has_width : !(has_height && has_width))
    throw config_error(concat(spec.where(), ": ",
                              has_size ? "size and a height or width are" : "height and width are not both",
                              " given; expected size=PIXELS of the shorter side, or height=PIXELS,width=PIXELS"));
  if (has_size) return std::make_unique<Resize>(detail::length(spec, "size", 0), 0, 0, filter);
  return std::make_unique<Resize>(0, detail::length(spec, "height", 0), detail::length(spec, "width", 0), filter);
}

const Registered<TransformKind> kRegistered{
    "resize",
    "to size=PIXELS of the shorter side, or to height=PIXELS,width=PIXELS; interpolation=nearest|bilinear (default "
    "bilinear)",
    make};

}  // namespace
}  // namespace penstock
