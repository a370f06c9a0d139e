// Column: sizes of rows.
#include "loader/rows/column.h"

#include <utility>

namespace penstock {

Dtype dtype_of(Layout layout) {
  if (layout == Layout::kU8Nhwc) return Dtype::kU8;
  if (layout == Layout::kU16Nhwc) return Dtype::kU16;
  if (layout == Layout::kF16Nchw || layout == Layout::kF16Nhwc) return Dtype::kF16;
  return layout == Layout::kBf16Nchw || layout == Layout::kBf16Nhwc ? Dtype::kBf16 : Dtype::kF32;
}

Column pixel_column(std::string name, const Extent& extent, Layout layout) {
  const int64_t height = extent.height, width = extent.width, channels = extent.channels;
  return {std::move(name), dtype_of(layout),
          is_planar(layout) ? std::vector{channels, height, width} : std::vector{height, width, channels}};
}

size_t Column::row_bytes() const {
  size_t byte_count = element_bytes(dtype);
  for (const int64_t size : shape) byte_count *= static_cast<size_t>(size);
  return byte_count;
}

}  // namespace penstock
