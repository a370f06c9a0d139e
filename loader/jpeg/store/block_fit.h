// FitTable: finds the cheapest codebook entry for a block.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "loader/jpeg/store/block_needs.h"
#include "loader/jpeg/store/codebook.h"

namespace penstock::detail {

struct BlockFit {
  int entry = 0;
  int bits = 0;  // of DC field, mask, values and exceptions together
};

/// What every need costs with every entry of a class. A block's bits with all entries are the sum of the rows of its
/// needs, and most coefficients have no need. A coefficient that fits its width costs that width, and any other
/// costs an exception. The width of the DC and the mask bits are the same for all blocks of an entry.
///
/// A row holds only what each entry costs beyond the cheapest one, so that sums fit a byte. Where even the least of
/// them does not, best() adds up 16 bits.
///
/// Memory: 149 KB. Thread-safety: const; best() may be called from any thread.
class FitTable {
 public:
  /// Puts in the first `entry_count` entries of `widths`.
  void set(const ClassWidths& widths, int entry_count);

  /// The entry with the fewest bits; of several with equally few bits, the first one. The result is the same on every
  /// instruction set. `needs` holds each coefficient at most once.
  BlockFit best(std::span<const Need> needs) const;

 private:
  BlockFit best_of_large_sums(std::span<const Need> needs, int common) const;

  using Row = std::array<uint8_t, kStoreEntries>;
  alignas(64) std::array<Row, kNeedCount> excess_{};
  alignas(64) Row base_{};                   // bits that all blocks of an entry take; 255 beyond the last entry
  std::array<uint8_t, kNeedCount> least_{};  // what each need costs with its cheapest entry
  int entry_count_ = 0;
};

}  // namespace penstock::detail
