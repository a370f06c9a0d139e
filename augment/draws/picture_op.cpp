// The operations of trivial-augment, rand-augment and auto-augment as edits of a plan. Sums over the picture (contrast,
// auto-contrast, equalise) are those of the output, because colours come after all geometry (see Plan).
#include "augment/draws/picture_op.h"

#include <cmath>

#include "augment/plan/affine_map.h"

namespace penstock::detail {
namespace {

/// `part` of `most` as an element of torch.linspace(0, most, bins) in f32: it goes up from 0 in its first half and down
/// from the end in the other, there with one rounding, as its kernels for AVX2 and AVX-512 do. Of 31 bins up to 32
/// pixels the middle one is 15.999999, of which int() makes 15; and where the product of a level and a factor is whole,
/// the last bit matters.
float element_of(double most, int bins, double part) {
  const auto end = static_cast<float>(most), last = static_cast<float>(bins - 1), step = end / last;
  const auto bin = static_cast<float>(std::fabs(part) * last);
  const float element = bin < static_cast<float>(bins / 2) ? step * bin : std::fma(-step, last - bin, end);
  return part < 0 ? -element : element;
}

Affine map_of(PictureOp op, double part, const FullMagnitude& full, const Plan& plan) {
  const auto whole = [&](double most) {
    return static_cast<double>(static_cast<int>(element_of(most, full.bins, part)));
  };
  switch (op) {
    case PictureOp::kShearX:
      return {1, full.shear * part, 0, 0, 1, 0};
    case PictureOp::kShearY:
      return {1, 0, 0, full.shear * part, 1, 0};
    case PictureOp::kTranslateX:
      return Affine::translation(-whole(full.translate_x), 0);
    case PictureOp::kTranslateY:
      return Affine::translation(0, -whole(full.translate_y));
    default:
      return affine_map({.degrees = -full.degrees * part}, plan.output_height, plan.output_width);
  }
}

ColorStep step_of(PictureOp op, double part, const FullMagnitude& full) {
  const auto factor = static_cast<float>(1.0 + element_of(full.factor, full.bins, part));
  switch (op) {
    case PictureOp::kBrightness:
      return {ColorOp::kBrightness, factor};
    case PictureOp::kColor:
      return {ColorOp::kSaturation, factor};
    case PictureOp::kContrast:
      return {ColorOp::kContrast, factor};
    case PictureOp::kSharpness:
      return {ColorOp::kSharpness, factor};
    case PictureOp::kPosterize:
      return {ColorOp::kPosterize,
              static_cast<float>(8 - full.always_posterized_bits - std::nearbyint(full.posterized_bits * part))};
    case PictureOp::kSolarize:
      return {ColorOp::kSolarize, static_cast<float>(255 - 255 * part)};
    case PictureOp::kInvert:
      return {ColorOp::kSolarize, 0};  // every level is 0 or more, so that all of them are inverted
    case PictureOp::kAutoContrast:
      return {ColorOp::kAutoContrast, 0};
    default:
      return {ColorOp::kEqualize, 0};
  }
}

}  // namespace

FullMagnitude auto_augment_magnitude(const Plan& plan, int bins) {
  return {.shear = 0.3,
          .translate_x = 150.0 / 331.0 * plan.output_width,
          .translate_y = 150.0 / 331.0 * plan.output_height,
          .degrees = 30,
          .factor = 0.9,
          .bins = bins,
          .posterized_bits = 4};
}

bool is_geometric(PictureOp op) { return op >= PictureOp::kShearX && op <= PictureOp::kRotate; }

bool has_sign(PictureOp op) { return op >= PictureOp::kShearX && op <= PictureOp::kSharpness; }

void apply(PictureOp op, double part, const FullMagnitude& full, Plan& plan, Rounding rounding) {
  if (op == PictureOp::kIdentity) return;
  if (is_geometric(op)) return plan.resample(map_of(op, part, full, plan), plan.output_height, plan.output_width);
  ColorStep step = step_of(op, part, full);
  step.rounding = rounding;
  plan.adjust(step);
}

}  // namespace penstock::detail
