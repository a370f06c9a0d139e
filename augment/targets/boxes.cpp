// move_boxes(): corners, hull, one clip.
#include "augment/targets/boxes.h"

#include <algorithm>

#include "augment/targets/on_picture.h"

namespace penstock {
namespace {

constexpr double kSlack = 1e-6;

/// A box in f64.
struct Rect {
  double x0, y0, x1, y1;
  double width() const { return std::max(0.0, x1 - x0); }
  double height() const { return std::max(0.0, y1 - y0); }
  double area() const { return width() * height(); }
};

Rect rect_of(const Region& region) {
  const double x = region.x, y = region.y;
  return {x, y, x + region.width, y + region.height};
}

Rect common(const Rect& a, const Rect& b) {
  return {std::max(a.x0, b.x0), std::max(a.y0, b.y0), std::min(a.x1, b.x1), std::min(a.y1, b.y1)};
}

Rect hull(const Rect& rect, const Affine& map) {
  const auto [x0, x1] = std::minmax({map.xx * rect.x0 + map.xy * rect.y0, map.xx * rect.x1 + map.xy * rect.y0,
                                     map.xx * rect.x0 + map.xy * rect.y1, map.xx * rect.x1 + map.xy * rect.y1});
  const auto [y0, y1] = std::minmax({map.yx * rect.x0 + map.yy * rect.y0, map.yx * rect.x1 + map.yy * rect.y0,
                                     map.yx * rect.x0 + map.yy * rect.y1, map.yx * rect.x1 + map.yy * rect.y1});
  return {x0 + map.x0, y0 + map.y0, x1 + map.x0, y1 + map.y0};
}

bool contains(const Rect& rect, double x, double y) { return x > rect.x0 && x < rect.x1 && y > rect.y0 && y < rect.y1; }

bool stays(const Rect& inside, const Box& box, double share, const BoxRules& rules) {
  const double width = inside.width(), height = inside.height();
  const bool is_empty = width <= kSlack || height <= kSlack || box.x0 >= box.x1 || box.y0 >= box.y1;
  return !is_empty && share + kSlack >= rules.min_share && width * height + kSlack >= rules.min_area &&
         std::min(width, height) + kSlack >= rules.min_size;
}

}  // namespace

std::vector<MovedBox> move_boxes(std::span<const Box> boxes, const Plan& plan, const BoxRules& rules) {
  std::vector<MovedBox> moved;
  const auto forward = inverse(plan.map);
  if (!forward) return moved;
  moved.reserve(boxes.size());
  const Rect view = rect_of(plan.view), output = rect_of(shown_region(plan));
  for (size_t i = 0; i < boxes.size(); ++i) {
    const Rect whole{boxes[i].x0, boxes[i].y0, boxes[i].x1, boxes[i].y1};
    const Rect seen = common(whole, view);
    if (seen.x0 >= seen.x1 || seen.y0 >= seen.y1) continue;
    const Rect all = hull(whole, *forward), inside = common(hull(seen, *forward), output);
    const double share = inside.area() / all.area();
    const Box box{static_cast<float>(inside.x0), static_cast<float>(inside.y0), static_cast<float>(inside.x1),
                  static_cast<float>(inside.y1)};
    if (!stays(inside, box, share, rules)) continue;
    if (rules.needs_center) {
      const double x = (whole.x0 + whole.x1) / 2, y = (whole.y0 + whole.y1) / 2;
      const bool is_inside = contains(view, x, y) && contains(output, (all.x0 + all.x1) / 2, (all.y0 + all.y1) / 2);
      if (!is_inside) continue;
    }
    moved.push_back({box, static_cast<float>(std::min(share, 1.0)), static_cast<int64_t>(i)});
  }
  return moved;
}

}  // namespace penstock
