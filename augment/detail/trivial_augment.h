// The operations of trivial-augment with given parameters, in a header of its own so that tests can call them.
#pragma once

#include <array>
#include <cstdint>

#include "augment/plan.h"

namespace penstock::detail {

/// The operations in torchvision's order.
enum class TrivialOp : uint8_t {
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
  kEqualize
};
constexpr int kTrivialOps = 14, kTrivialBins = 31;

struct TrivialDraw {
  TrivialOp op = TrivialOp::kIdentity;
  int bin = 0;               // bin of the magnitude, 0 to kTrivialBins - 1
  bool is_negative = false;  // used by the operations that have a sign
};

/// Applies the operation to the plan. It does not set the plan's filter and fill.
void apply(const TrivialDraw& draw, Plan& plan);

/// Whether the operation moves pixels, so that filter and fill matter.
bool is_geometric(TrivialOp op);

}  // namespace penstock::detail
