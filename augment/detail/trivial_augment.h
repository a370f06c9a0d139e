// trivial-augment's operations with their parameters given, as tests call them.
#pragma once

#include <array>
#include <cstdint>

#include "augment/plan.h"

namespace penstock::detail {

/// In torchvision's order.
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
  int bin = 0;               // of the magnitude, 0 to kTrivialBins - 1
  bool is_negative = false;  // of the operations that have a sign
};

/// Edits all but the plan's filter and fill.
void apply(const TrivialDraw& draw, Plan& plan);

/// The magnitude changes the pixels' places, so that filter and fill count.
bool is_geometric(TrivialOp op);

}  // namespace penstock::detail
