// The operations of timm's RandAugment as edits of a plan. Pillow has a coordinate of (x + 0.5, y + 0.5) for the centre
// of a pixel, as Plan has, so that a map of timm is one of ours.
#include "augment/draws/timm_op.h"

#include <algorithm>

#include "augment/draws/picture_op.h"

namespace penstock::detail {
namespace {

constexpr double kUnit = 10;         // the magnitude that is 1 in timm's formulas
constexpr double kTranslate = 0.45;  // of the size, at kUnit
constexpr FullMagnitude kFull{.shear = 0.3, .degrees = 30};

/// A share of `full` as a whole number, cut.
int whole(double part, double full) { return static_cast<int>(part * full); }

float bits_of(double part, bool increases) {
  const int kept = whole(part, 4);
  return static_cast<float>(std::clamp(increases ? 4 - kept : kept, 0, 8));
}

float threshold_of(double part, bool increases) {
  const int threshold = std::min(256, whole(part, 256));
  return static_cast<float>(increases ? 256 - threshold : threshold);
}

float factor_of(double part, const TimmDraw& draw) {
  if (!draw.increases) return static_cast<float>(part * 1.8 + 0.1);
  return static_cast<float>(std::max(0.1, 1 + (draw.is_negative ? -0.9 : 0.9) * part));
}

}  // namespace

bool is_geometric(TimmOp op) { return op == TimmOp::kRotate || op >= TimmOp::kShearX; }

void apply(const TimmDraw& draw, Plan& plan) {
  const double part = draw.magnitude / kUnit, signed_part = draw.is_negative ? -part : part;
  const auto adjust = [&](ColorOp op, float amount) { plan.adjust({op, amount, 0, Rounding::kPillow}); };
  const auto move = [&](const Affine& map) { plan.resample(map, plan.output_height, plan.output_width); };
  switch (draw.op) {
    case TimmOp::kAutoContrast:
      return adjust(ColorOp::kAutoContrast, 0);
    case TimmOp::kEqualize:
      return adjust(ColorOp::kEqualize, 0);
    case TimmOp::kInvert:
      return apply(PictureOp::kInvert, 0, kFull, plan);
    case TimmOp::kRotate:
      return apply(PictureOp::kRotate, signed_part, kFull, plan);
    case TimmOp::kPosterize:
      return adjust(ColorOp::kPosterize, bits_of(part, draw.increases));
    case TimmOp::kSolarize:
      return adjust(ColorOp::kSolarize, threshold_of(part, draw.increases));
    case TimmOp::kSolarizeAdd:
      return adjust(ColorOp::kSolarizeAdd, static_cast<float>(std::min(128, whole(part, 110))));
    case TimmOp::kColor:
      return adjust(ColorOp::kSaturation, factor_of(part, draw));
    case TimmOp::kContrast:
      return adjust(ColorOp::kContrast, factor_of(part, draw));
    case TimmOp::kBrightness:
      return adjust(ColorOp::kBrightness, factor_of(part, draw));
    case TimmOp::kSharpness:
      return adjust(ColorOp::kSharpness, factor_of(part, draw));
    case TimmOp::kShearX:
      return apply(PictureOp::kShearX, signed_part, kFull, plan);
    case TimmOp::kShearY:
      return apply(PictureOp::kShearY, signed_part, kFull, plan);
    case TimmOp::kTranslateX:
      return move(Affine::translation(kTranslate * signed_part * plan.output_width, 0));
    case TimmOp::kTranslateY:
      return move(Affine::translation(0, kTranslate * signed_part * plan.output_height));
  }
}

}  // namespace penstock::detail
