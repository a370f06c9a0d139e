// The chains of aug-mix, with given parameters.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "augment/draws/picture_op.h"
#include "augment/plan/plan.h"

namespace penstock::detail {

/// In the order of torchvision's AugMix. The last four are those that its all_ops adds.
inline constexpr std::array kAugMixOps{PictureOp::kShearX,     PictureOp::kShearY,       PictureOp::kTranslateX,
                                       PictureOp::kTranslateY, PictureOp::kRotate,       PictureOp::kPosterize,
                                       PictureOp::kSolarize,   PictureOp::kAutoContrast, PictureOp::kEqualize,
                                       PictureOp::kBrightness, PictureOp::kColor,        PictureOp::kContrast,
                                       PictureOp::kSharpness};
constexpr int kAugMixOpCount = 13, kAugMixFewOpCount = 9;
constexpr int kAugMixBins = 10;

struct AugMixDraw {
  PictureOp op = PictureOp::kIdentity;
  int bin = 0;               // 0 to kAugMixBins - 1, the full magnitude
  bool is_negative = false;  // used by the operations that have a sign
};

/// The chain of these operations on pictures of the plan's output. Each stage has at most one move, which comes first
/// in it, so that the operations have their order.
Chain aug_mix_chain(float share, const std::vector<AugMixDraw>& draws, const Plan& plan, Filter filter, float fill);

}  // namespace penstock::detail
