// Copies of finished pixels: whatever their type is and whatever filter has made them, those of a border need no
// sampling of their own.
#include "augment/kernels/border_copies.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace penstock::detail {
namespace {

/// The output's rows or columns [begin, end) show the picture.
struct Shown {
  int begin = 0, end = 0;
};

Shown shown(int first, int size, int output_size) {
  return {std::clamp(first, 0, output_size), std::clamp(first + size, 0, output_size)};
}

/// One plane of H x W elements of `pixel_bytes` each, whose type is std::integral_constant where their size is known.
template <class Size>
void copy_plane(const Plan& plan, uint8_t* plane, Size pixel_bytes) {
  const Region& inside = plan.inside;
  const int width = plan.output_width, height = plan.output_height;
  const Shown columns = shown(inside.x, inside.width, width), rows = shown(inside.y, inside.height, height);
  const auto line = [&](int row) { return plane + static_cast<size_t>(row) * width * pixel_bytes; };
  const auto copy_columns = [&](int row, int begin, int end) {
    for (int column = begin; column < end; ++column) {
      const int from = inside.x + pixel_at(plan.border, column - inside.x, inside.width);
      std::memcpy(line(row) + column * pixel_bytes, line(row) + from * pixel_bytes, pixel_bytes);
    }
  };
  const auto copy_rows = [&](int begin, int end) {
    for (int row = begin; row < end; ++row) {
      const int from = inside.y + pixel_at(plan.border, row - inside.y, inside.height);
      std::memcpy(line(row), line(from), width * pixel_bytes);
    }
  };
  for (int row = rows.begin; row < rows.end; ++row) {
    copy_columns(row, 0, columns.begin);
    copy_columns(row, columns.end, width);
  }
  copy_rows(0, rows.begin);
  copy_rows(rows.end, height);
}

template <size_t kElement>
void copy_elements(const RenderJob& job, int channels) {
  using std::integral_constant;
  auto* const output = static_cast<uint8_t*>(job.output);
  if (!is_planar(job.layout)) {
    if (channels == 1) return copy_plane(*job.plan, output, integral_constant<size_t, kElement>());
    if (channels == 3) return copy_plane(*job.plan, output, integral_constant<size_t, 3 * kElement>());
    return copy_plane(*job.plan, output, static_cast<size_t>(channels) * kElement);
  }
  const size_t plane_bytes = static_cast<size_t>(job.plan->output_height) * job.plan->output_width * kElement;
  for (int i = 0; i < channels; ++i)
    copy_plane(*job.plan, output + i * plane_bytes, integral_constant<size_t, kElement>());
}

}  // namespace

void copy_into_border(const RenderJob& job, int channels) {
  if (job.plan->border == Border::kFill) return;
  switch (element_bytes(job.layout)) {
    case 4:
      return copy_elements<4>(job, channels);
    case 2:
      return copy_elements<2>(job, channels);
    default:
      return copy_elements<1>(job, channels);
  }
}

}  // namespace penstock::detail
