// Codebook: the bit widths by which the coefficient store keeps blocks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "loader/jpeg/geometry.h"
#include "loader/jpeg/store_format.h"

namespace penstock::detail {

/// An entry: bits of each coefficient's value, row by row, 0 .. kMaxWidth; 0: it must be 0. [0] is the width of the
/// DC's difference, 0 .. kMaxDcWidth.
using EntryWidths = std::array<uint8_t, kBlockSize>;
using ClassWidths = std::array<EntryWidths, kStoreEntries>;

/// What decoding needs of a codebook, by class * kStoreEntries + entry. 152 KB, of which a path reads half or less.
struct CodebookTables {
  static constexpr int kCount = kStoreClasses * kStoreEntries;
  struct Head {
    uint64_t positions;  // coefficients that have a mask bit, by row-by-row number; never bit 0
    uint32_t dc_width;
    uint32_t counts;  // mask bits, + 2^16 for an entry 255: a group's sum gives both
    int mask_bits() const { return static_cast<int>(counts & 0xFFFF); }
  };
  alignas(64) std::array<ClassWidths, kStoreClasses> widths;
  alignas(64) std::array<std::array<uint64_t, 8>, kCount> fields;      // a row: the low `width` bits of 8 bytes
  alignas(64) std::array<std::array<uint8_t, 64>, kCount> order;       // coefficient of the mask's j-th bit
  alignas(64) std::array<std::array<uint64_t, 4>, kCount> width_bits;  // bit b of the widths, by coefficient
  std::array<Head, kCount> heads;
  std::array<std::array<uint16_t, kStoreEntries>, kStoreClasses> base_bits;  // of any block: DC field and mask

  const EntryWidths& widths_of(int entry) const { return widths[entry / kStoreEntries][entry % kStoreEntries]; }
};

/// 2 classes (the first component, and the others of three) of 256 entries. Entry 254 is 7 bits for every AC and 12 for
/// the DC; entry 255 has no widths: the store keeps such a block as it is. The others are trained.
///
/// As bytes, kByteCount: for class 0 and 1, for entry 0 .. 253: 64 widths of 4 bits, the lower half of a byte first;
/// behind them u32, CRC-32C of all before.
///
/// Memory: 152 KB. Thread-safety: const.
class Codebook {
 public:
  static constexpr size_t kByteCount = size_t{kStoreClasses} * kTrainedEntries * kBlockSize / 2 + 4;

  /// Entries 254 and 255 of `widths` are not looked at. Requires widths that valid_widths() takes.
  explicit Codebook(const std::array<ClassWidths, kStoreClasses>& widths);
  /// Throws corrupt_error, the fact alone: another length or CRC-32C, or an entry that valid_widths() refuses.
  static Codebook parse(std::span<const uint8_t> bytes);

  std::vector<uint8_t> bytes() const;
  const CodebookTables& tables() const { return *tables_; }

 private:
  std::unique_ptr<CodebookTables> tables_;
};

/// No width above its limit, no row of more than kMaxRowBits bits (the DC not counted).
bool valid_widths(const EntryWidths& widths);

/// The class of a component's entries.
constexpr int store_class(int component_count, int component) { return component_count == 3 && component > 0 ? 1 : 0; }

}  // namespace penstock::detail
