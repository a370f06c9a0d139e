// random-resized-crop: resizes a rectangle of random area and aspect to one size (Szegedy et al. 2015, sec. 6). The
// rectangle is drawn as by torchvision's RandomResizedCrop (0.26): ten tries, then the middle.
#include <cmath>
#include <memory>

#include "augment/transform.h"
#include "augment/transforms/arguments.h"
#include "augment/transforms/filter_choice.h"

namespace penstock {
namespace {

struct CropRanges {
  Range area{0.08, 1}, ratio{3. / 4, 4. / 3}, log_ratio;  // fraction of the picture; width / height
};

bool is_within(double size, int limit) { return size > 0 && size <= limit; }

/// The greatest part of the picture, in its middle, whose aspect is within the range.
Region middle(int height, int width, const Range& ratio) {
  const double aspect = static_cast<double>(width) / height;
  int rows = height, columns = width;
  if (aspect < ratio.low) rows = std::max(1, static_cast<int>(std::nearbyint(width / ratio.low)));
  if (aspect > ratio.high) columns = std::max(1, static_cast<int>(std::nearbyint(height * ratio.high)));
  return {(width - columns) / 2, (height - rows) / 2, columns, rows};
}

Region draw_crop(int height, int width, const CropRanges& ranges, Rng& rng) {
  constexpr int kTries = 10;
  const double picture_area = static_cast<double>(height) * width;
  for (int i = 0; i < kTries; ++i) {
    const double area = picture_area * rng.uniform(ranges.area.low, ranges.area.high);
    // libm's exp() may differ in its last bit between machines. That matters only for a draw within 1e-15 of a rounding
    // border.
    const double ratio = std::exp(rng.uniform(ranges.log_ratio.low, ranges.log_ratio.high));
    const double columns = std::nearbyint(std::sqrt(area * ratio)), rows = std::nearbyint(std::sqrt(area / ratio));
    if (!is_within(columns, width) || !is_within(rows, height)) continue;
    const int y = rng.between(0, height - static_cast<int>(rows)),
              x = rng.between(0, width - static_cast<int>(columns));
    return {x, y, static_cast<int>(columns), static_cast<int>(rows)};
  }
  return middle(height, width, ranges.ratio);
}

class RandomResizedCrop final : public Transform {
 public:
  RandomResizedCrop(const detail::Size& size, const CropRanges& ranges, detail::FilterChoice filter)
      : size_(size), ranges_(ranges), filter_(filter) {}

  void edit(Plan& plan, Rng& rng) const override {
    const Region crop = draw_crop(plan.output_height, plan.output_width, ranges_, rng);
    plan.look_only_at(crop);
    plan.resample({static_cast<double>(crop.width) / size_.width, 0, static_cast<double>(crop.x), 0,
                   static_cast<double>(crop.height) / size_.height, static_cast<double>(crop.y)},
                  size_.height, size_.width);
    detail::use_filter(plan, filter_, rng);
  }

 private:
  detail::Size size_;
  CropRanges ranges_;
  detail::FilterChoice filter_;
};

std::unique_ptr<Transform> make(const Spec& spec, const DataStatistics&) {
  CropRanges ranges;
  ranges.area = spec.get("scale", ranges.area);
  if (ranges.area.low <= 0 || ranges.area.high > 1)
    throw config_error(concat(spec.where(), ": scale is ", ranges.area.low, ":", ranges.area.high,
                              "; expected fractions of the picture, more than 0 and up to 1"));
  ranges.ratio = spec.get("ratio", ranges.ratio);
  if (ranges.ratio.low <= 0)
    throw config_error(concat(spec.where(), ": ratio is ", ranges.ratio.low, "; expected more than 0"));
  ranges.log_ratio = {std::log(ranges.ratio.low), std::log(ranges.ratio.high)};
  const detail::Size size = detail::size(spec);
  return std::make_unique<RandomResizedCrop>(size, ranges, detail::filter(spec, "antialias", true));
}

/// The transforms of an evaluation. In place of random-resized-crop(size=224) they are
/// resize(size=256),center-crop(size=224) (He et al. 2016, sec. 3.4); other sizes keep that ratio. Where height and
/// width differ, the greater one gives the size of the shorter side.
std::string middle_of_picture(const Spec& crop) {
  const int side = crop.get("size", 0);
  const int height = crop.get("height", side), width = crop.get("width", side);
  const Spec known = detail::without_random(crop);
  std::string filter;
  for (const char* key : {"filter", "interpolation"})
    if (known.has(key)) filter = concat(",", key, "=", known.get(key, ""));
  const auto shorter_side = std::llround(std::max(height, width) * 256. / 224);
  return concat("resize(size=", shorter_side, filter, "),center-crop(",
                side > 0 ? concat("size=", side) : concat("height=", height, ",width=", width), ")");
}

const Registered<TransformKind> kRegistered{
    "random-resized-crop",
    {"size", "height", "width", "scale", "ratio", "filter", "interpolation"},
    "cut out a random part and resize it to a square of size=PIXELS, or to height=PIXELS,width=PIXELS: scale=low:high "
    "of the picture's area (default 0.08:1), ratio=low:high of width to height (3/4 to 4/3), "
    "interpolation=bilinear|bicubic|lanczos|box|hamming|nearest|random (bilinear), or "
    "filter=antialias|bilinear|nearest",
    make,
    {.test_spec = "random-resized-crop(size=9)", .in_evaluation = middle_of_picture, .sets_size = true}};

}  // namespace
}  // namespace penstock
