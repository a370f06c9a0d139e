// move_keypoints(): key points under the plan of their picture.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "augment/plan/plan.h"

namespace penstock {

/// A point in continuous coordinates (Box), and whether it is there: 0 for one that is not. Other values are the data
/// set's own, such as COCO's 1 (hidden) and 2 (visible).
struct KeyPoint {
  float x = 0, y = 0, v = 0;
  bool operator==(const KeyPoint&) const = default;
};

/// Moves points in place: `per_entry` points for each object, one object after the other. `points` are in the plan's
/// picture (on_upright()).
///
/// Points that are not annotated, 0, 0, 0 as COCO has them, stay 0, 0, 0. The others are never clamped. Those outside
/// of the view or the output get v = 0 and keep where they are; a point on the border is inside. When the plan mirrors
/// the picture, the points of each pair in `swapped` change places: the left hand of a mirrored person is stored as the
/// right one. A singular map makes all points 0, 0, 0. Requires points.size() % per_entry == 0 and pairs of numbers
/// below per_entry.
void move_keypoints(std::span<KeyPoint> points, size_t per_entry, const Plan& plan,
                    std::span<const std::pair<int, int>> swapped);

}  // namespace penstock
