// on_picture: inverse maps, and EXIF's orientations undone.
#include "augment/targets/on_picture.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace penstock {

Plan on_upright(const Plan& plan, int orientation) {
  if (orientation <= 1 || orientation > 8) return plan;
  // Elements of 0, 1 and -1 and whole offsets: its inverse is exact.
  const Affine turn = *inverse(orientation_map(orientation, plan.input_height, plan.input_width));
  Plan upright = plan;
  upright.map = turn.after(plan.map);
  if (orientation >= 5) std::swap(upright.input_height, upright.input_width);
  const double x1 = plan.view.x, x2 = x1 + plan.view.width, y1 = plan.view.y, y2 = y1 + plan.view.height;
  const auto [left, right] =
      std::minmax({turn.xx * x1 + turn.xy * y1 + turn.x0, turn.xx * x2 + turn.xy * y2 + turn.x0});
  const auto [top, bottom] =
      std::minmax({turn.yx * x1 + turn.yy * y1 + turn.y0, turn.yx * x2 + turn.yy * y2 + turn.y0});
  upright.view = {static_cast<int>(left), static_cast<int>(top), static_cast<int>(right - left),
                  static_cast<int>(bottom - top)};
  return upright;
}

std::optional<Affine> inverse(const Affine& map) {
  // Less than this is a picture of a thousandth of a pixel that is shown on the whole output.
  constexpr double kLeast = 1e-12;
  const double determinant = map.xx * map.yy - map.xy * map.yx;
  if (!(std::fabs(determinant) > kLeast) || !std::isfinite(determinant)) return {};
  const double xx = map.yy / determinant, xy = -map.xy / determinant;
  const double yx = -map.yx / determinant, yy = map.xx / determinant;
  return Affine{xx, xy, -(xx * map.x0 + xy * map.y0), yx, yy, -(yx * map.x0 + yy * map.y0)};
}

bool is_mirrored(const Plan& plan) { return plan.map.xx * plan.map.yy - plan.map.xy * plan.map.yx < 0; }

Region shown_region(const Plan& plan) {
  const Region all{0, 0, plan.output_width, plan.output_height};
  if (plan.border == Border::kFill) return all;
  const Region& inside = plan.inside;
  const int left = std::clamp(inside.x, 0, all.width), top = std::clamp(inside.y, 0, all.height);
  const int right = std::clamp(inside.x + inside.width, left, all.width);
  const int bottom = std::clamp(inside.y + inside.height, top, all.height);
  return {left, top, right - left, bottom - top};
}

}  // namespace penstock
