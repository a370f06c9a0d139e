// move_keypoints(): each point through the plan's map; left and right change places.
#include "augment/targets/keypoints.h"

#include <algorithm>

#include "augment/targets/on_picture.h"

namespace penstock {
namespace {

bool contains(const Region& region, double x, double y) {
  return x >= region.x && y >= region.y && x <= region.x + region.width && y <= region.y + region.height;
}

}  // namespace

void move_keypoints(std::span<KeyPoint> points, size_t per_entry, const Plan& plan,
                    std::span<const std::pair<int, int>> swapped) {
  const auto forward = inverse(plan.map);
  if (!forward) {
    std::fill(points.begin(), points.end(), KeyPoint{});
    return;
  }
  const Region shown = shown_region(plan);
  for (auto& point : points) {
    if (point == KeyPoint{}) continue;
    const double x = forward->xx * point.x + forward->xy * point.y + forward->x0;
    const double y = forward->yx * point.x + forward->yy * point.y + forward->y0;
    const bool is_inside = contains(plan.view, point.x, point.y) && contains(shown, x, y);
    point = {static_cast<float>(x), static_cast<float>(y), is_inside ? point.v : 0};
  }
  if (!is_mirrored(plan)) return;
  for (size_t begin = 0; begin < points.size(); begin += per_entry)
    for (const auto& [a, b] : swapped)
      std::swap(points[begin + static_cast<size_t>(a)], points[begin + static_cast<size_t>(b)]);
}

}  // namespace penstock
