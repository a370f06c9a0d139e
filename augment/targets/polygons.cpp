// draw_polygon(): row by row, between pairs of edges.
#include "augment/targets/polygons.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "augment/targets/on_picture.h"

namespace penstock {
namespace {

struct Place {
  double x, y;
};

/// Where an edge crosses the middle of a row.
struct Crossing {
  int row;
  double x;
  bool operator<(const Crossing& other) const { return row != other.row ? row < other.row : x < other.x; }
};

/// The first number from `low` on whose pixel has its centre at `at` or after it; at most `high`.
int first_center(double at, int low, int high) {
  return static_cast<int>(std::ceil(std::clamp(at - 0.5, static_cast<double>(low), static_cast<double>(high))));
}

void add_crossings(Place a, Place b, const Region& shown, std::vector<Crossing>& crossings) {
  if (a.y > b.y) std::swap(a, b);
  const int end = first_center(b.y, shown.y, shown.y + shown.height);
  for (int row = first_center(a.y, shown.y, shown.y + shown.height); row < end; ++row)
    crossings.push_back({row, a.x + (b.x - a.x) * ((row + 0.5 - a.y) / (b.y - a.y))});
}

bool is_viewed(const Plan& plan, int column, int row) {
  const double x = plan.map.xx * (column + 0.5) + plan.map.xy * (row + 0.5) + plan.map.x0;
  const double y = plan.map.yx * (column + 0.5) + plan.map.yy * (row + 0.5) + plan.map.y0;
  const Region& view = plan.view;
  return x >= view.x && y >= view.y && x < view.x + view.width && y < view.y + view.height;
}

}  // namespace

void draw_polygon(std::span<const Vertex> vertices, const Plan& plan, std::span<uint8_t> output) {
  const auto forward = inverse(plan.map);
  if (!forward || vertices.empty()) return;
  const Region shown = shown_region(plan);
  const auto moved = [&](const Vertex& point) {
    return Place{forward->xx * point.x + forward->xy * point.y + forward->x0,
                 forward->yx * point.x + forward->yy * point.y + forward->y0};
  };
  std::vector<Crossing> crossings;
  Place before = moved(vertices.back());
  for (const Vertex& point : vertices) {
    const Place vertex = moved(point);
    add_crossings(before, vertex, shown, crossings);
    before = vertex;
  }
  std::sort(crossings.begin(), crossings.end());
  for (size_t i = 0; i + 1 < crossings.size(); i += 2) {  // each row has an even number of them
    const int row = crossings[i].row;
    uint8_t* const line = output.data() + static_cast<size_t>(row) * static_cast<size_t>(plan.output_width);
    const int end = first_center(crossings[i + 1].x, shown.x, shown.x + shown.width);
    for (int column = first_center(crossings[i].x, shown.x, shown.x + shown.width); column < end; ++column)
      if (is_viewed(plan, column, row)) line[column] = 1;
  }
}

}  // namespace penstock
