// draw_polygon(): fills a polygon, in pixels of the output.
#pragma once

#include <cstdint>
#include <span>

#include "augment/plan/plan.h"

namespace penstock {

/// A point of a polygon in continuous coordinates (Box).
struct Vertex {
  float x = 0, y = 0;
  bool operator==(const Vertex&) const = default;
};

/// Writes 1 over each pixel of `output` (output_height x output_width, row by row) that shows a part of the polygon,
/// whose vertices are in the plan's picture (on_upright()). They are moved by the plan; a pixel is inside when its
/// centre is, by the even-odd rule, and when what lies under it is in the view. A centre on a left or upper edge is
/// inside, one on a right or lower edge is not, so that polygons with a common edge share no pixel. pycocotools draws
/// edges on a grid of fifths of pixels and may differ by a pixel along them. A singular map draws nothing.
void draw_polygon(std::span<const Vertex> vertices, const Plan& plan, std::span<uint8_t> output);

}  // namespace penstock
