// PixelLayout: computed from a geometry, a region and a scale.
#include "loader/jpeg/pixels/pixel_layout.h"

#include <algorithm>

namespace penstock::detail {
namespace {

int dct_size(const JpegGeometry& geometry, const JpegGeometry::Component& component, int scale) {
  int size = scale;
  while (size < 8 && (geometry.max_h * scale) % (component.h * size * 2) == 0 &&
         (geometry.max_v * scale) % (component.v * size * 2) == 0)
    size *= 2;
  return size;
}

/// The samples that the pixels [begin, begin + count) need. For an even pixel the filter also reads the sample before
/// its own, and for an odd pixel the sample after its own.
Range samples(int begin, int count, int expand, bool is_fancy, int total) {
  const int end = begin + count;
  if (is_fancy) return {std::max(begin - 1, 0) / 2, std::min(end / 2 + 1, total)};
  return {begin / expand, (end - 1) / expand + 1};
}

Range divided(const Range& range, int divisor) { return {range.begin / divisor, (range.end + divisor - 1) / divisor}; }

Range united(const Range& a, const Range& b) { return {std::min(a.begin, b.begin), std::max(a.end, b.end)}; }

ComponentLayout component_layout(const JpegGeometry& geometry, int index, const Region& region, int scale) {
  const auto& component = geometry.components[index];
  ComponentLayout layout;
  layout.dct_size = dct_size(geometry, component, scale);
  layout.expand_x = geometry.max_h * scale / (component.h * layout.dct_size);
  layout.expand_y = geometry.max_v * scale / (component.v * layout.dct_size);
  const int64_t unit_x = int64_t{8} * geometry.max_h, unit_y = int64_t{8} * geometry.max_v;
  layout.width = static_cast<int>((int64_t{geometry.width} * component.h * layout.dct_size + unit_x - 1) / unit_x);
  layout.height = static_cast<int>((int64_t{geometry.height} * component.v * layout.dct_size + unit_y - 1) / unit_y);
  const bool may_be_fancy = scale > 1 && layout.expand_x <= 2 && layout.expand_y <= 2;
  const bool is_wide = layout.expand_x == 1 || layout.width > 2;
  layout.is_fancy_x = may_be_fancy && is_wide && layout.expand_x == 2;
  layout.is_fancy_y = may_be_fancy && is_wide && layout.expand_y == 2;
  layout.columns = samples(region.x, region.width, layout.expand_x, layout.is_fancy_x, layout.width);
  layout.rows = samples(region.y, region.height, layout.expand_y, layout.is_fancy_y, layout.height);
  layout.block_columns = divided(layout.columns, layout.dct_size);
  layout.block_rows = divided(layout.rows, layout.dct_size);
  return layout;
}

}  // namespace

PixelLayout::PixelLayout(const JpegGeometry& geometry, const Region& wanted, int scale)
    : region(wanted), mcu_height(geometry.max_v * scale) {
  for (int i = 0; i < geometry.component_count; ++i) {
    const auto& component = geometry.components[i];
    components[i] = component_layout(geometry, i, region, scale);
    const Range columns = divided(components[i].block_columns, component.h);
    const Range rows = divided(components[i].block_rows, component.v);
    mcu_columns = i == 0 ? columns : united(mcu_columns, columns);
    mcu_rows = i == 0 ? rows : united(mcu_rows, rows);
    looks_down = looks_down || components[i].is_fancy_y;
  }
}

}  // namespace penstock::detail
