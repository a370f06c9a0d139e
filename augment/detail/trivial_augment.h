// The draw of trivial-augment with given parameters, in a header of its own so that tests can call it.
#pragma once

#include "augment/detail/picture_op.h"

namespace penstock::detail {

constexpr int kTrivialOps = 14, kTrivialBins = 31;

struct TrivialDraw {
  PictureOp op = PictureOp::kIdentity;
  int bin = 0;               // bin of the magnitude, 0 to kTrivialBins - 1
  bool is_negative = false;  // used by the operations that have a sign
};

/// Applies the operation to the plan. It does not set the plan's filter and fill.
void apply(const TrivialDraw& draw, Plan& plan);

}  // namespace penstock::detail
