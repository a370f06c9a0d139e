// letterbox: the whole picture, as large as it fits into a fixed size, in the middle of it, with fill around it. The
// sizes and the place are those of Ultralytics' LetterBox (8.3): scale r = min(height / h, width / w), sides of w * r
// and h * r rounded half to even, and margins whose odd pixel is at the right or below.
//
// Deviation: antialiased unless told otherwise, as the other resizes are; LetterBox samples bilinearly.
#include <cmath>
#include <memory>

#include "augment/transform.h"
#include "augment/transforms/arguments.h"
#include "augment/transforms/filter_choice.h"

namespace penstock {
namespace {

class Letterbox final : public Transform {
 public:
  Letterbox(const detail::Size& size, float fill, detail::FilterChoice filter)
      : size_(size), fill_(fill), filter_(filter) {}

  void edit(Plan& plan, Rng& rng) const override {
    const double height = plan.output_height, width = plan.output_width;
    const double scale = std::min(size_.height / height, size_.width / width);
    const double new_height = std::max(1.0, std::nearbyint(height * scale));
    const double new_width = std::max(1.0, std::nearbyint(width * scale));
    const double left = std::floor((size_.width - new_width) / 2), top = std::floor((size_.height - new_height) / 2);
    plan.look_only_at({0, 0, plan.output_width, plan.output_height});
    const double x_scale = width / new_width, y_scale = height / new_height;
    plan.resample({x_scale, 0, -left * x_scale, 0, y_scale, -top * y_scale}, size_.height, size_.width);
    plan.fill.fill(fill_);
    detail::use_filter(plan, filter_, rng);
  }

 private:
  detail::Size size_;
  float fill_;  // level
  detail::FilterChoice filter_;
};

std::unique_ptr<Transform> make(const Spec& spec, const DataStatistics& statistics) {
  constexpr double kGrey = 114;  // LetterBox's
  const float fill = detail::level(spec, "fill", kGrey * (statistics.white() / 255), statistics);
  const detail::FilterChoice filter = detail::filter(spec, "antialias", true);
  return std::make_unique<Letterbox>(detail::size(spec), fill, filter);
}

const Registered<TransformKind> kRegistered{
    "letterbox",
    {"size", "height", "width", "fill", "filter", "interpolation"},
    "resize the whole picture so that it fits into a square of size=PIXELS, or height=PIXELS,width=PIXELS, and put it "
    "in the middle: fill=LEVEL from 0 to 255 around it (default 114), "
    "interpolation=bilinear|bicubic|lanczos|box|hamming|nearest|random (bilinear), or "
    "filter=antialias|bilinear|nearest",
    make,
    {.test_spec = "letterbox(height=9,width=14)",
     .is_deterministic = true,
     .is_random = detail::draws_filter,
     .in_evaluation = detail::resize_in_evaluation,
     .sets_size = true}};

}  // namespace
}  // namespace penstock
