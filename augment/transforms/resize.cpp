// resize: gives the shorter side a length and keeps the aspect, or gives height and width, as torchvision's Resize
// (0.26).
//
// Deviation: a plan resamples once, so that a rotation elsewhere in the list turns antialiasing into bilinear sampling.
#include <memory>

#include "augment/transform.h"
#include "augment/transforms/arguments.h"
#include "augment/transforms/filter_choice.h"

namespace penstock {
namespace {

class Resize final : public Transform {
 public:
  Resize(int shorter_side, int height, int width, detail::FilterChoice filter)
      : shorter_side_(shorter_side), height_(height), width_(width), filter_(filter) {}

  void edit(Plan& plan, Rng& rng) const override {
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
    detail::use_filter(plan, filter_, rng);
  }

 private:
  int shorter_side_;  // pixels; 0 where height and width are given
  int height_, width_;
  detail::FilterChoice filter_;
};

std::unique_ptr<Transform> make(const Spec& spec, const DataStatistics&) {
  const detail::FilterChoice filter = detail::filter(spec, "antialias", true);
  const detail::Size size = detail::size(spec, " of the shorter side");
  return std::make_unique<Resize>(size.side, size.height, size.width, filter);
}

const Registered<TransformKind> kRegistered{
    "resize",
    {"size", "height", "width", "filter", "interpolation"},
    "resize so that the shorter side has size=PIXELS, or to height=PIXELS,width=PIXELS; "
    "interpolation=bilinear|bicubic|lanczos|box|hamming|nearest|random (default bilinear), or "
    "filter=antialias|bilinear|nearest",
    make,
    {.test_spec = "resize(size=9)",
     .is_deterministic = true,
     .is_random = detail::draws_filter,
     .in_evaluation = detail::resize_in_evaluation,
     .sets_size = true}};

}  // namespace
}  // namespace penstock
