// JpegGeometry: computed from a header.
#include "loader/jpeg/base/geometry.h"

#include <algorithm>

namespace penstock::detail {
namespace {

constexpr int divided_up(int dividend, int divisor) { return (dividend + divisor - 1) / divisor; }

}  // namespace

JpegGeometry::JpegGeometry(const JpegHeader& header)
    : height(header.height), width(header.width), component_count(header.component_count) {
  for (int i = 0; i < component_count; ++i) {
    max_h = std::max(max_h, header.components[i].h);
    max_v = std::max(max_v, header.components[i].v);
  }
  mcu_columns = divided_up(width, mcu_width());
  mcu_rows = divided_up(height, mcu_height());
  for (int i = 0; i < component_count; ++i) {
    const auto& [id, h, v, quant_table, dc_table, ac_table] = header.components[i];
    components[i] = {h, v, mcu_blocks};
    mcu_blocks += h * v;
  }
}

}  // namespace penstock::detail
