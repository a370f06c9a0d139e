// crop, shift: cut out a window of the padded picture at a random place, as torchvision's RandomCrop (0.26) with
// padding, padding_mode and pad_if_needed. Without a size, the window is as large as the picture, which is the
// augmentation of He et al. 2016, sec. 4.2.
#include <algorithm>
#include <memory>
#include <optional>

#include "augment/transform.h"
#include "augment/transforms/arguments.h"

namespace penstock {
namespace {

struct Window {
  std::optional<detail::Size> size{};  // none: that of the picture
  int pad = 0;                         // pixels of the output so far, on each side
  std::optional<float> fill{};         // none: the plan's stays
  Border border = Border::kFill;
};

/// Where the window begins along one axis. A padded picture that is still smaller than the window lies wholly inside of
/// it.
int begin_at(int size, int window, int pad, Rng& rng) {
  const int room = size + 2 * pad - window;
  return rng.between(std::min(room, 0), std::max(room, 0)) - pad;
}

class Crop final : public Transform {
 public:
  explicit Crop(const Window& window) : window_(window) {}

  void edit(Plan& plan, Rng& rng) const override {
    const int height = window_.size ? window_.size->height : plan.output_height;
    const int width = window_.size ? window_.size->width : plan.output_width;
    const Region before{0, 0, plan.output_width, plan.output_height};
    const int x = begin_at(before.width, width, pad(width), rng);
    const int y = begin_at(before.height, height, pad(height), rng);
    plan.resample(Affine::translation(x, y), height, width);
    if (window_.fill) plan.fill.fill(*window_.fill);
    if (repeats_border()) plan.repeat_around({-x, -y, before.width, before.height}, window_.border);
  }

  bool repeats_border() const override { return window_.border != Border::kFill; }

 private:
  /// A window without a size is as large as the picture, and may be too small for the pad.
  int pad(int window) const {
    return repeats_border() ? std::min(window_.pad, widest_border(window_.border, window)) : window_.pad;
  }

  Window window_;
};

Border border(const Spec& spec) {
  const std::string name = spec.get("border", "fill");
  if (name == "fill") return Border::kFill;
  if (spec.has("fill"))
    throw config_error(concat(spec.where(), ": fill and border=", name, " are given; expected one of them"));
  if (name == "edge") return Border::kEdge;
  if (name == "reflect") return Border::kReflect;
  if (name == "symmetric") return Border::kSymmetric;
  throw config_error(
      concat(spec.where(), ": border is ", in_quotes(name), "; expected fill, edge, reflect or symmetric"));
}

int padding(const Spec& spec, int fallback) {
  const int pad = spec.get("pad", fallback);
  if (pad < 0 || pad > 65535)
    throw config_error(concat(spec.where(), ": pad is ", pad, "; expected 0 to 65535 pixels"));
  return pad;
}

std::unique_ptr<Transform> make_crop(const Spec& spec, const DataStatistics& statistics) {
  const bool has_size = spec.has("size") || spec.has("height") || spec.has("width");
  Window window;
  if (has_size || !spec.has("pad")) window.size = detail::size(spec);
  window.pad = padding(spec, 0);
  window.border = border(spec);
  window.fill = detail::fill(spec, statistics);
  if (window.size && window.border != Border::kFill) {
    const int side = std::min(window.size->height, window.size->width), most = widest_border(window.border, side);
    if (window.pad > most)
      throw config_error(concat(spec.where(), ": pad is ", window.pad, " with border=", spec.get("border", ""),
                                " and a window of ", side, "; expected at most ", most));
  }
  return std::make_unique<Crop>(window);
}

const Registered<TransformKind> kCrop{
    "crop",
    {"size", "height", "width", "pad", "fill", "border"},
    "pad the picture by pad=PIXELS on each side (default 0) with fill=LEVEL (0), or with border=edge|reflect|symmetric "
    "(default fill), which copies its pixels and lets only flips follow, and cut out a window at a random place: a "
    "square of size=PIXELS, or height=PIXELS,width=PIXELS (with pad, default: the size before padding); a smaller "
    "picture is padded",
    make_crop,
    {.test_spec = "crop(size=8,pad=1)", .sets_size = true}};

const Registered<TransformKind> kShift{
    "shift",
    {"pad"},
    "zero-pad by pad=PIXELS (default 4) and crop back to the size before at a random place; the same as "
    "crop(pad=PIXELS)",
    [](const Spec& spec, const DataStatistics&) { return std::make_unique<Crop>(Window{.pad = padding(spec, 4)}); },
    {.test_spec = "shift(pad=3)"}};

}  // namespace
}  // namespace penstock
