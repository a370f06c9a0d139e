// The operations from which trivial-augment, rand-augment and auto-augment draw, with given parameters.
#pragma once

#include <cstdint>

#include "augment/plan/plan.h"

namespace penstock::detail {

/// In the order of torchvision's TrivialAugmentWide and RandAugment. AutoAugment has kInvert instead of kIdentity.
enum class PictureOp : uint8_t {
  kIdentity,
  kShearX,
  kShearY,
  kTranslateX,
  kTranslateY,
  kRotate,
  kBrightness,
  kColor,
  kContrast,
  kSharpness,
  kPosterize,
  kSolarize,
  kAutoContrast,
  kEqualize,
  kInvert
};

/// What each operation does at its full magnitude.
struct FullMagnitude {
  double shear = 0;                         // tangent of the angle
  double translate_x = 0, translate_y = 0;  // pixels of the output; cut to whole pixels after scaling
  double degrees = 0;
  double factor = 0;               // the most that a factor of colours differs from 1
  int bins = 31;                   // of the magnitudes in torchvision, which are f32
  int posterized_bits = 0;         // the number of lowest bits that posterize clears
  int always_posterized_bits = 0;  // and of those that it clears besides, at every magnitude
};

/// That of torchvision's RandAugment and AutoAugment (0.26), of which the original sizes are for pictures of 331
/// pixels.
FullMagnitude auto_augment_magnitude(const Plan& plan, int bins);

/// Applies the operation at `part` of its full magnitude, -1 to 1; solarize and posterize take 0 to 1. It does not set
/// the plan's filter and fill.
/// Colours are on whole levels, rounded as `rounding` says.
void apply(PictureOp op, double part, const FullMagnitude& full, Plan& plan, Rounding rounding = Rounding::kPillow);

/// Whether the operation moves pixels, so that filter and fill matter.
bool is_geometric(PictureOp op);

/// Whether the operation is drawn with a sign.
bool has_sign(PictureOp op);

}  // namespace penstock::detail
