// draw_instance(): the mask of one object under the plan of its picture.
#pragma once

#include <cstdint>
#include <span>

#include "augment/plan/plan.h"
#include "loader/files/instance_masks.h"

namespace penstock::detail {

/// Writes 0 and 1 to `output`, output_height x output_width of `plan`, which is that of the stored picture. Polygons
/// are moved as vertices and filled; runs are moved as a mask, by the nearest pixel. A border of copies has no objects.
void draw_instance(const InstanceMask& mask, const Plan& plan, int orientation, std::span<uint8_t> output);

}  // namespace penstock::detail
