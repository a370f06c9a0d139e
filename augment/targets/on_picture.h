// on_picture: what a plan does to points, from the upright picture to the output.
//
// Lives here: boxes, key points, masks and polygons under the plan of their picture, as pure functions of it.
// Not here: how they are stored (loader/files), and the columns that deliver them (loader/columns).
#pragma once

#include <optional>

#include "augment/plan/plan.h"

namespace penstock {

/// The same plan for the upright picture, in which boxes and key points are annotated, in place of the stored one.
/// `orientation` is that of the stored picture, 1 to 8.
Plan on_upright(const Plan& plan, int orientation);

/// The map back; nothing for a map that is singular, or not finite.
std::optional<Affine> inverse(const Affine& map);

/// Whether the output is a mirror image of the picture: the determinant of the map is negative.
bool is_mirrored(const Plan& plan);

/// The rectangle of the output that may show the picture: the whole output or, in a border of copies, what lies inside
/// of it. Copies are no objects of their own.
Region shown_region(const Plan& plan);

}  // namespace penstock
