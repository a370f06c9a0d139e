// BatchFormat: columns are laid out once per loader.
#include "loader/rows/batch_format.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "core/text.h"

namespace penstock::detail {
namespace {

constexpr size_t kLineBytes = 64, kMostBytes = size_t{1} << 46;

size_t rounded_up(size_t byte_count, size_t alignment) { return (byte_count + alignment - 1) / alignment * alignment; }

size_t alignment_of(const Column& column) { return column.shape.empty() ? element_bytes(column.dtype) : kLineBytes; }

std::vector<Column> known_columns(const Extent& extent, Layout layout, bool mixes) {
  std::vector<Column> columns{
      pixel_column("images", extent, layout), {"labels", Dtype::kI64}, {"ids", Dtype::kU64}, {"weights", Dtype::kF32}};
  if (mixes) {
    columns.push_back({"second_labels", Dtype::kI64});
    columns.push_back({"mix_weights", Dtype::kF32});
  }
  return columns;
}

}  // namespace

BatchFormat::BatchFormat(int64_t row_count, const Extent& of_rows, Layout of_pixels, bool is_mixing,
                         std::vector<Column> made, size_t view_columns)
    : rows(row_count),
      extent(of_rows),
      layout(of_pixels),
      mixes(is_mixing),
      further_views(view_columns),
      columns(known_columns(of_rows, of_pixels, is_mixing)) {
  for (auto& column : made) {
    for (const auto& other : columns)
      if (other.name == column.name)
        throw config_error(concat("columns: two are named ", column.name, "; expected each name once"));
    columns.push_back(std::move(column));
  }
  std::vector<size_t> order(columns.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [this](size_t a, size_t b) { return alignment_of(columns[a]) > alignment_of(columns[b]); });
  offsets.resize(columns.size());
  for (const size_t number : order) {
    const Column& column = columns[number];
    size_t byte_count = 0;
    if (__builtin_mul_overflow(static_cast<size_t>(rows), column.row_bytes(), &byte_count) || byte_count > kMostBytes)
      throw config_error(
          concat("loader: a batch has ", rows, " rows of ", column.row_bytes(), " bytes; expected under 64 TiB"));
    offsets[number] = block_bytes;
    block_bytes = rounded_up(block_bytes + byte_count, alignment_of(column));
  }
  indices_offset = rounded_up(block_bytes, sizeof(uint64_t));
  block_bytes = rounded_up(indices_offset + static_cast<size_t>(rows) * sizeof(uint64_t), kLineBytes);
}

}  // namespace penstock::detail
