// draw_instance(): polygons as vertices, runs as pixels.
#include "loader/columns/draw_instance.h"

#include <algorithm>

#include "augment/targets/masks.h"
#include "augment/targets/on_picture.h"

namespace penstock::detail {

void draw_instance(const InstanceMask& mask, const Plan& plan, int orientation, std::span<uint8_t> output) {
  std::fill(output.begin(), output.end(), uint8_t{0});
  const Plan upright = on_upright(plan, orientation);
  for (const auto& polygon : mask.polygons) draw_polygon(polygon, upright, output);
  if (mask.runs.empty() || !inverse(plan.map)) return;
  auto pixels = pixels_of_runs(mask.runs, upright.input_height, upright.input_width);
  if (orientation > 1) pixels = as_stored<uint8_t>(pixels, orientation, plan.input_height, plan.input_width);
  move_mask<uint8_t>(pixels, plan, 0, MaskBorder::kFill, output);
}

}  // namespace penstock::detail
