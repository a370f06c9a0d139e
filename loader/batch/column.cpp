// Column: sizes of elements and rows.
#include "loader/batch/column.h"

namespace penstock {

size_t element_bytes(Dtype dtype) {
  switch (dtype) {
    case Dtype::kU8:
      return 1;
    case Dtype::kF16:
    case Dtype::kBf16:
      return 2;
    case Dtype::kF32:
      return 4;
    case Dtype::kI64:
    case Dtype::kU64:
      break;
  }
  return 8;
}

Dtype dtype_of(Layout layout) {
  if (layout == Layout::kU8Nhwc) return Dtype::kU8;
  if (layout == Layout::kF16Nchw || layout == Layout::kF16Nhwc) return Dtype::kF16;
  return layout == Layout::kBf16Nchw || layout == Layout::kBf16Nhwc ? Dtype::kBf16 : Dtype::kF32;
}

size_t Column::row_bytes() const {
  size_t byte_count = element_bytes(dtype);
  for (const int64_t size : shape) byte_count *= static_cast<size_t>(size);
  return byte_count;
}

}  // namespace penstock
