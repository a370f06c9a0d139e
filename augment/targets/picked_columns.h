// PickedColumns: some columns of a row of bytes, in any order and with repetitions, 16 at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace penstock::detail {

/// Which columns of rows of `row_bytes` bytes a line of the output shows. A mask under a crop is nothing but this, for
/// each of its lines: column by column it took 9 instructions per pixel, which was a third of the time of a mask.
/// Thread-safety: pick() may be called from many threads.
class PickedColumns {
 public:
  static constexpr size_t kAtOnce = 16, kMostTables = 4;

  PickedColumns() = default;  // of no columns
  /// Requires: each of `from` is below row_bytes.
  PickedColumns(std::vector<uint32_t> from, size_t row_bytes);

  size_t size() const { return from_.size(); }
  /// to[i] = row[from[i]] for i < size().
  void pick(const uint8_t* row, uint8_t* to) const;

  /// 16 columns that lie within 16 * table_count bytes from `base` on.
  struct Block {
    uint32_t base = 0;
    uint32_t table_count = 0;  // 0: they lie further apart
    alignas(kAtOnce) std::array<uint8_t, kAtOnce> offsets{};
  };

 private:
  std::vector<uint32_t> from_;
  std::vector<Block> blocks_;                          // of the whole 16s in from_
  std::vector<std::pair<size_t, size_t>> one_by_one_;  // ranges of from_: blocks without tables, and the rest
};

}  // namespace penstock::detail
