// The operations of timm's RandAugment (1.0), with given parameters.
#pragma once

#include <cstdint>

#include "augment/plan/plan.h"

namespace penstock::detail {

/// In the order of timm's lists of transforms.
enum class TimmOp : uint8_t {
  kAutoContrast,
  kEqualize,
  kInvert,
  kRotate,
  kPosterize,
  kSolarize,
  kSolarizeAdd,
  kColor,
  kContrast,
  kBrightness,
  kSharpness,
  kShearX,
  kShearY,
  kTranslateX,
  kTranslateY
};
constexpr int kTimmOps = 15;

struct TimmDraw {
  TimmOp op = TimmOp::kAutoContrast;
  double magnitude = 0;      // 0 to 10, and more with timm's mmax
  bool is_negative = false;  // used by the operations that have a sign
  bool increases = false;    // timm's inc1: a greater magnitude makes posterize, solarize and colours stronger
};

/// Applies the operation to the plan. It does not set the plan's filter and fill.
void apply(const TimmDraw& draw, Plan& plan);

/// Whether the operation moves pixels, so that filter and fill matter.
bool is_geometric(TimmOp op);

}  // namespace penstock::detail
