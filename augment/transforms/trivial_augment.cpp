// trivial-augment: applies one of 14 operations at one of 31 magnitudes, both drawn evenly (Mueller & Hutter 2021), as
// torchvision's TrivialAugmentWide (0.26).
//
// Deviations: one plan has one filter and one fill, and colours come after all geometry (see Plan). Sums over the
// picture (contrast, auto-contrast, equalise) are those of the output.
#include "augment/detail/trivial_augment.h"

#include <memory>
#include <optional>

#include "augment/affine_map.h"
#include "augment/detail/arguments.h"
#include "augment/transform.h"

namespace penstock {
namespace detail {
namespace {

Affine map_of(TrivialOp op, double part, const Plan& plan) {
  const auto whole_pixels = [&] { return static_cast<double>(static_cast<int>(32 * part)); };
  switch (op) {
    case TrivialOp::kShearX:
      return {1, 0.99 * part, 0, 0, 1, 0};
    case TrivialOp::kShearY:
      return {1, 0, 0, 0.99 * part, 1, 0};
    case TrivialOp::kTranslateX:
      return Affine::translation(-whole_pixels(), 0);
    case TrivialOp::kTranslateY:
      return Affine::translation(0, -whole_pixels());
    default:
      return affine_map({.degrees = -135 * part}, plan.output_height, plan.output_width);
  }
}

bool has_sign(TrivialOp op) { return op >= TrivialOp::kShearX && op <= TrivialOp::kSharpness; }

ColorStep step_of(TrivialOp op, double part, int bin) {
  const auto factor = static_cast<float>(1 + 0.99 * part);
  switch (op) {
    case TrivialOp::kBrightness:
      return {ColorOp::kBrightness, factor};
    case TrivialOp::kColor:
      return {ColorOp::kSaturation, factor};
    case TrivialOp::kContrast:
      return {ColorOp::kContrast, factor};
    case TrivialOp::kSharpness:
      return {ColorOp::kSharpness, factor};
    case TrivialOp::kPosterize:
      return {ColorOp::kPosterize, static_cast<float>(8 - (bin + 2) / 5)};  // 8 bits down to 2
    case TrivialOp::kSolarize:
      return {ColorOp::kSolarize, static_cast<float>(255 - 255 * part)};
    case TrivialOp::kAutoContrast:
      return {ColorOp::kAutoContrast, 0};
    default:
      return {ColorOp::kEqualize, 0};
  }
}

}  // namespace

bool is_geometric(TrivialOp op) { return op >= TrivialOp::kShearX && op <= TrivialOp::kRotate; }

void apply(const TrivialDraw& draw, Plan& plan) {
  if (draw.op == TrivialOp::kIdentity) return;
  const double size = static_cast<double>(draw.bin) / (kTrivialBins - 1);
  const double part = draw.is_negative && has_sign(draw.op) ? -size : size;
  if (is_geometric(draw.op)) return plan.resample(map_of(draw.op, part, plan), plan.output_height, plan.output_width);
  const ColorStep step = step_of(draw.op, part, draw.bin);
  plan.adjust(step.op, step.amount);
}

}  // namespace detail

namespace {

class TrivialAugment final : public Transform {
 public:
  TrivialAugment(Filter filter, std::optional<float> fill) : filter_(filter), fill_(fill) {}

  int color_steps() const override { return 1; }

  void edit(Plan& plan, Rng& rng) const override {
    detail::TrivialDraw draw;
    draw.op = static_cast<detail::TrivialOp>(rng.between(0, detail::kTrivialOps - 1));
    draw.bin = rng.between(0, detail::kTrivialBins - 1);
    draw.is_negative = rng.chance(0.5);
    detail::apply(draw, plan);
    if (detail::is_geometric(draw.op)) detail::use_filter(plan, filter_);
    if (fill_) plan.fill.fill(*fill_);
  }

 private:
  Filter filter_;
  std::optional<float> fill_;  // level; none: the plan's stays
};

std::unique_ptr<Transform> make(const Spec& spec, const DataStatistics& statistics) {
  return std::make_unique<TrivialAugment>(detail::filter(spec, "nearest", false), detail::fill(spec, statistics));
}

const Registered<TransformKind> kRegistered{
    "trivial-augment",
    {"filter", "interpolation", "fill"},
    "one random operation (identity, shear-x/y, translate-x/y, rotate, brightness, colour, contrast, sharpness, "
    "posterize, solarize, auto-contrast or equalize) at one of 31 magnitudes: filter=nearest|bilinear (default "
    "nearest), fill=LEVEL from 0 to 255 (0)",
    make,
    {.test_spec = "trivial-augment"}};

}  // namespace
}  // namespace penstock
