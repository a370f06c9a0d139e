// ViewParts: hulls of regions, and whether they are worth their pixels.
#include "loader/rows/view_parts.h"

#include <algorithm>
#include <cstdint>

namespace penstock::detail {
namespace {

int64_t area_of(const Region& region) { return int64_t{region.width} * region.height; }

}  // namespace

Region hull_of(const Region& a, const Region& b) {
  if (area_of(a) == 0) return b;
  if (area_of(b) == 0) return a;
  const int x = std::min(a.x, b.x), y = std::min(a.y, b.y);
  return {x, y, std::max(a.x + a.width, b.x + b.width) - x, std::max(a.y + a.height, b.y + b.height) - y};
}

void share_regions(std::span<ViewPart> parts, bool costs_what_is_above) {
  for (size_t number = 0; number < parts.size(); ++number) {
    ViewPart& part = parts[number];
    part.leader = number;
    for (size_t other = 0; other < number; ++other) {
      ViewPart& leader = parts[other];
      if (leader.leader != other || leader.dct_scale != part.dct_scale) continue;
      const Region hull = hull_of(leader.region, part.region);
      if (!costs_what_is_above && area_of(hull) > area_of(leader.region) + area_of(part.region)) continue;
      leader.region = hull;
      part.leader = other;
      break;
    }
  }
}

}  // namespace penstock::detail
