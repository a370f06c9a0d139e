// scale-jitter: large-scale jitter (Ghiasi et al. 2021, "Simple Copy-Paste", sec. 3) to a fixed size: torchvision's
// ScaleJitter (0.26), then the FixedSizeCrop of its detection recipes.
//
// A scale s is drawn evenly from scale=low:high. The picture is resized by r = s * min(height / h, width / w), to sides
// of h * r and w * r rounded down. A side that is longer than the output is cut: one number u in [0, 1) is drawn, and
// the window begins at the pixel u * (side - output) rounded down, with the same u for both sides. A shorter side
// begins at 0 and has fill at its end.
#include <algorithm>
#include <cmath>
#include <memory>

#include "augment/transform.h"
#include "augment/transforms/arguments.h"
#include "augment/transforms/filter_choice.h"

namespace penstock {
namespace {

class ScaleJitter final : public Transform {
 public:
  ScaleJitter(const detail::Size& size, const Range& scale, std::optional<float> fill, detail::FilterChoice filter)
      : size_(size), scale_(scale), fill_(fill), filter_(filter) {}

  void edit(Plan& plan, Rng& rng) const override {
    const double height = plan.output_height, width = plan.output_width;
    const double scale = rng.uniform(scale_.low, scale_.high) * std::min(size_.height / height, size_.width / width);
    const double new_height = std::max(1.0, std::floor(height * scale));
    const double new_width = std::max(1.0, std::floor(width * scale));
    const double place = rng.uniform();
    const double left = std::floor(place * std::max(0.0, new_width - size_.width));
    const double top = std::floor(place * std::max(0.0, new_height - size_.height));
    plan.look_only_at({0, 0, plan.output_width, plan.output_height});
    const double x_scale = width / new_width, y_scale = height / new_height;
    plan.resample({x_scale, 0, left * x_scale, 0, y_scale, top * y_scale}, size_.height, size_.width);
    if (fill_) plan.fill.fill(*fill_);
    detail::use_filter(plan, filter_, rng);
  }

 private:
  detail::Size size_;
  Range scale_;
  std::optional<float> fill_;  // level; none: the plan's stays
  detail::FilterChoice filter_;
};

std::unique_ptr<Transform> make(const Spec& spec, const DataStatistics& statistics) {
  const Range scale = spec.get("scale", Range{0.1, 2});
  if (scale.low <= 0 || scale.high > 100)
    throw config_error(concat(spec.where(), ": scale is ", scale.low, ":", scale.high,
                              "; expected factors of more than 0 and up to 100"));
  const auto fill = detail::fill(spec, statistics);
  const detail::FilterChoice filter = detail::filter(spec, "antialias", true);
  return std::make_unique<ScaleJitter>(detail::size(spec), scale, fill, filter);
}

/// The same size, without jitter.
std::string whole_picture(const Spec& spec) {
  const Spec letterbox = detail::without_random(spec).without("scale");
  const std::string text = letterbox.text();
  const std::string keys = text.substr(text.find('(') + 1);
  return concat("letterbox(", spec.has("fill") ? "" : "fill=0,", keys);
}

const Registered<TransformKind> kRegistered{
    "scale-jitter",
    {"size", "height", "width", "scale", "fill", "filter", "interpolation"},
    "resize the picture by a random scale=low:high (default 0.1:2) of what fits into a square of size=PIXELS, or "
    "height=PIXELS,width=PIXELS, then cut that size out at random, or add fill=LEVEL (0) at the right and below; "
    "interpolation=bilinear|bicubic|lanczos|box|hamming|nearest|random (bilinear), or "
    "filter=antialias|bilinear|nearest",
    make,
    {.test_spec = "scale-jitter(size=9)", .in_evaluation = whole_picture, .sets_size = true}};

}  // namespace
}  // namespace penstock
