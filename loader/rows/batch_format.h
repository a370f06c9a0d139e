// BatchFormat: which columns the batches of a loader have, and where they lie in the memory of one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "loader/rows/column.h"

namespace penstock::detail {

/// A block holds one batch: its columns by falling alignment, so that there are no gaps between numbers. Arrays, and
/// with them the pixels, take whole lines of 64 bytes and come first.
struct BatchFormat {
  /// `made`: columns of further views, then those of makers. Throws config_error for two columns of one name, and for a
  /// block that is too large.
  BatchFormat(int64_t rows, const Extent& extent, Layout layout, bool mixes, std::vector<Column> made,
              size_t further_views = 0);

  size_t made_begin() const { return mixes ? Column::kMixWeights + 1 : Column::kWeights + 1; }
  bool has(size_t number) const { return number < made_begin(); }  ///< Whether it has this known column.
  /// The first row of a column.
  template <class T>
  T* begin(std::byte* block, size_t number) const {
    return reinterpret_cast<T*>(block + offsets[number]);
  }

  int64_t rows;   // per batch of this rank
  Extent extent;  // of one rendered sample
  Layout layout;
  bool mixes;
  size_t further_views;  // columns from made_begin() on
  std::vector<Column> columns;
  std::vector<size_t> offsets;  // one entry per column
  size_t indices_offset = 0;    // of a u64 per row, which is no column: Batch::indices()
  size_t block_bytes = 0;
};

}  // namespace penstock::detail
