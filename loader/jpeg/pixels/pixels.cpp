// decode_pixels(): works MCU row by MCU row. Samples go through planes of two MCU rows, which stay in the nearest
// cache.
//
//   MCU row      m             m + 1         m + 2
//   samples      half 0        half 1        half 0        of each plane, as a ring
//   pixel rows   all but the   ...           all           where a filter looks at the row below, the last row of
//                last                                      pixels waits for the next MCU row's samples
#include "loader/jpeg/pixels/pixels.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/error.h"
#include "core/text.h"
#include "loader/jpeg/pixels/pixel_kernels.h"
#include "loader/jpeg/pixels/pixel_layout.h"

namespace penstock::detail {
namespace {

/// Bytes to the left of a plane's first sample: room for the neighbour of the first sample. With 64, rows begin where
/// cache lines do.
constexpr int kLeftSlack = 64;

constexpr int rounded_up(int value, int unit) { return (value + unit - 1) / unit * unit; }

void check(const JpegHeader& header, const Region& region, int scale, int channels) {
  const bool is_inside = region.x >= 0 && region.y >= 0 && region.width >= 1 && region.height >= 1 &&
                         region.width <= scaled_length(header.width, scale) - region.x &&
                         region.height <= scaled_length(header.height, scale) - region.y;
  if (is_inside && (header.component_count == 3 ? channels == 3 : channels == 1 || channels == 3)) return;
  throw bug_error(concat("decode_pixels: region ", region.width, "x", region.height, " at (", region.x, ", ", region.y,
                         ") and ", channels, " channels of ", header.width, "x", header.height, "x",
                         header.component_count, " at scale ", scale, "/8; expected them inside it"));
}

/// The samples of one component: a ring that holds the rows of two MCU rows.
struct Plane {
  alignas(16) std::array<int16_t, kBlockSize> quant{};
  // [block row of an MCU][block across a group].
  std::array<std::array<uint16_t, size_t{kGroupMcus} * 4>, 4> block_index{};
  uint8_t* samples = nullptr;   // row 0 of the ring, at the first column that is decoded
  ptrdiff_t stride = 0;         // in bytes
  int row_count = 0;            // rows in the ring: a power of two
  int first_column = 0;         // first decoded column, in samples
  uint8_t* expanded = nullptr;  // room for one row of pixels

  uint8_t* row(int y) const { return samples + (y & (row_count - 1)) * stride; }
};

/// One row of blocks of a component in a group.
struct BlockList {
  std::array<const int16_t*, size_t{kGroupMcus} * 4> blocks;
  std::array<uint8_t, size_t{kGroupMcus} * 4> rows;

  BlockList(const PixelScratch& scratch, const uint16_t* index, int count) {
    for (int i = 0; i < count; ++i) {
      blocks[i] = scratch.coefficients.data() + ptrdiff_t{kBlockSize} * index[i];
      rows[i] = scratch.rows[index[i]];
    }
    for (int i = count; i % kSideBySide != 0; ++i) {
      blocks[i] = blocks[count - 1];
      rows[i] = rows[count - 1];
    }
  }
};

class PixelDecoder {
 public:
  PixelDecoder(const JpegHeader& header, const JpegGeometry& geometry, const Region& region, int scale, int channels,
               PixelScratch& scratch)
      : geometry_(geometry),
        layout_(geometry, region, scale),
        color_(header.color),
        channels_(channels),
        kernels_(pixel_kernels()),
        scratch_(scratch),
        pixel_stride_(ptrdiff_t{rounded_up(region.width, kRowSlack)} * channels) {
    for (int i = 0; i < geometry.component_count; ++i) prepare(i, header.quant[header.components[i].quant_table]);
    reserve();
  }

  Picture run(CoefficientSource& source) {
    const Region& region = layout_.region;
    int next_row = region.y;
    for (int mcu_row = layout_.mcu_rows.begin; mcu_row < layout_.mcu_rows.end; ++mcu_row) {
      decode_mcu_row(source, mcu_row);
      int end = region.y + region.height;
      if (mcu_row + 1 < layout_.mcu_rows.end)
        end = std::min(end, (mcu_row + 1) * layout_.mcu_height - (layout_.looks_down ? 1 : 0));
      for (; next_row < end; ++next_row) put_row(next_row);
    }
    return {scratch_.pixels.data(), pixel_stride_, region.height, region.width, channels_, region.x, region.y};
  }

 private:
  void prepare(int index, const std::array<uint16_t, 64>& quant) {
    const auto& component = geometry_.components[index];
    const auto& layout = layout_.components[index];
    Plane& plane = planes_[index];
    for (int i = 0; i < kBlockSize; ++i) plane.quant[i] = static_cast<int16_t>(quant[i]);
    for (int v = 0; v < component.v; ++v)
      for (int i = 0; i < kGroupMcus * component.h; ++i)
        plane.block_index[v][i] = static_cast<uint16_t>(i / component.h * geometry_.mcu_blocks + component.first_block +
                                                        v * component.h + i % component.h);
    plane.first_column = layout.block_columns.begin * layout.dct_size;
    plane.row_count = static_cast<int>(std::bit_ceil(static_cast<unsigned>(2 * component.v * layout.dct_size)));
    // The space on the right is for what is written by vectors that reach beyond the last block, and for the neighbour
    // of the last sample.
    plane.stride =
        kLeftSlack + rounded_up(layout.block_columns.count() * layout.dct_size + (kSideBySide - 1) * 8 + kRowSlack, 64);
  }

  /// Makes one allocation for all planes, or none once the scratch is large enough.
  void reserve() {
    const int expanded_bytes = rounded_up(2 * layout_.region.width, 64) + 4 * kRowSlack;
    size_t byte_count = 0;
    for (int i = 0; i < geometry_.component_count; ++i)
      byte_count += static_cast<size_t>(planes_[i].stride * planes_[i].row_count + expanded_bytes);
    const auto grow = [](auto& buffer, size_t size) {
      if (buffer.size() < size) buffer.resize(size);
    };
    grow(scratch_.samples, byte_count);
    grow(scratch_.sums, static_cast<size_t>(layout_.region.width) + 2 + 2 * kRowSlack);
    grow(scratch_.pixels, static_cast<size_t>(pixel_stride_) * layout_.region.height);
    uint8_t* next = scratch_.samples.data();
    for (int i = 0; i < geometry_.component_count; ++i) {
      planes_[i].samples = next + kLeftSlack;
      next += planes_[i].stride * planes_[i].row_count;
      planes_[i].expanded = next;
      next += expanded_bytes;
    }
  }

  void decode_mcu_row(CoefficientSource& source, int mcu_row) {
    const auto [first, last] = layout_.mcu_columns;
    for (int begin = first; begin < last;) {
      const int end = std::min(last, (begin / kGroupMcus + 1) * kGroupMcus);
      source.read(mcu_row, begin, end, {scratch_.coefficients.data(), scratch_.rows.data()});
      for (int i = 0; i < geometry_.component_count; ++i) transform(i, mcu_row, begin, end);
      begin = end;
    }
    for (int i = 0; i < geometry_.component_count; ++i)
      if (layout_.components[i].is_fancy_x) repeat_edges(i, mcu_row);
  }

  /// Transforms the blocks of a component in the MCUs [begin, end) that the region needs.
  void transform(int index, int mcu_row, int begin, int end) {
    const auto& component = geometry_.components[index];
    const auto& layout = layout_.components[index];
    const Plane& plane = planes_[index];
    const int first = std::max(begin * component.h, layout.block_columns.begin);
    const int last = std::min(end * component.h, layout.block_columns.end);
    if (first >= last) return;
    for (int v = 0; v < component.v; ++v) {
      const int block_row = mcu_row * component.v + v;
      if (block_row < layout.block_rows.begin || block_row >= layout.block_rows.end) continue;
      const BlockList list(scratch_, plane.block_index[v].data() + (first - begin * component.h), last - first);
      uint8_t* out = plane.row(block_row * layout.dct_size) + first * layout.dct_size - plane.first_column;
      const BlockJob job{list.blocks.data(), list.rows.data(), last - first, plane.quant.data(), out, plane.stride};
      kernels_.idct[std::countr_zero(static_cast<unsigned>(layout.dct_size))](job);
    }
  }

  /// Where the region touches the left or right edge of the picture, the outermost sample is repeated once for the
  /// filter.
  void repeat_edges(int index, int mcu_row) {
    const auto& layout = layout_.components[index];
    const Plane& plane = planes_[index];
    const int row_count = geometry_.components[index].v * layout.dct_size;
    for (int y = mcu_row * row_count; y < (mcu_row + 1) * row_count; ++y) {
      uint8_t* row = plane.row(y) - plane.first_column;
      if (layout.columns.begin == 0) row[-1] = row[0];
      if (layout.columns.end == layout.width) row[layout.width] = row[layout.width - 1];
    }
  }

  void put_row(int y) {
    const Region& region = layout_.region;
    std::array<const uint8_t*, 3> in{};
    for (int i = 0; i < geometry_.component_count; ++i) in[i] = pixel_row(i, y);
    uint8_t* out = scratch_.pixels.data() + (y - region.y) * pixel_stride_;
    if (channels_ == 1) {
      std::memcpy(out, in[0], static_cast<size_t>(region.width));
    } else if (geometry_.component_count == 1) {
      kernels_.interleave(in[0], in[0], in[0], region.width, out);
    } else if (color_ == JpegColor::kRgb) {
      kernels_.interleave(in[0], in[1], in[2], region.width, out);
    } else {
      kernels_.ycc_to_rgb(in[0], in[1], in[2], region.width, out);
    }
  }

  /// The part of pixel row `y` of one component that lies in the region.
  const uint8_t* pixel_row(int index, int y) {
    const auto& layout = layout_.components[index];
    const Plane& plane = planes_[index];
    if (layout.expand_x == 1 && layout.expand_y == 1) return plane.row(y) + (layout_.region.x - plane.first_column);
    return expanded_row(layout, plane, y);
  }

  const uint8_t* expanded_row(const ComponentLayout& layout, const Plane& plane, int y) {
    const int first = layout_.region.x / layout.expand_x;
    const int count = (layout_.region.x + layout_.region.width - 1) / layout.expand_x + 1 - first;
    const int row = y / layout.expand_y;
    const bool is_upper = y % layout.expand_y == 0;
    const int neighbour = std::clamp(is_upper ? row - 1 : row + 1, 0, layout.height - 1);
    const uint8_t* in = plane.row(row) + (first - plane.first_column);
    const uint8_t* farther = plane.row(neighbour) + (first - plane.first_column);
    uint8_t* out = plane.expanded;
    if (layout.is_fancy_x && layout.is_fancy_y) {
      kernels_.double_rows(in, farther, count, scratch_.sums.data(), out);
    } else if (layout.is_fancy_x) {
      kernels_.double_row(in, count, out);
    } else if (layout.is_fancy_y) {
      kernels_.blend_rows(in, farther, is_upper ? 1 : 2, count, out);
    } else {
      for (int i = 0; i < count; ++i) std::memset(out + i * layout.expand_x, in[i], layout.expand_x);
    }
    return out + layout_.region.x % layout.expand_x;
  }

  const JpegGeometry& geometry_;
  const PixelLayout layout_;
  const JpegColor color_;
  const int channels_;
  const PixelKernels& kernels_;
  PixelScratch& scratch_;
  const ptrdiff_t pixel_stride_;  // in bytes
  std::array<Plane, 3> planes_{};
};

}  // namespace

Picture decode_pixels(const JpegHeader& header, const JpegGeometry& geometry, CoefficientSource& source,
                      const Region& region, int scale, int channels, PixelScratch& scratch) {
  check(header, region, scale, channels);
  return PixelDecoder(header, geometry, region, scale, channels, scratch).run(source);
}

}  // namespace penstock::detail
