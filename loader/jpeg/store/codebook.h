// Codebook: the bit widths with which the coefficient store stores blocks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "loader/jpeg/base/geometry.h"
#include "loader/jpeg/store/store_format.h"

namespace penstock::detail {

/// One entry of a codebook: 64 widths, row by row. Element k > 0 is the number of bits for the value of coefficient k,
/// 0 .. kMaxWidth; 0 means that the coefficient must be 0 or an exception. Element 0 is the width of the DC's
/// difference, 0 .. kMaxDcWidth.
using EntryWidths = std::array<uint8_t, kBlockSize>;
using ClassWidths = std::array<EntryWidths, kStoreEntries>;

/// The codebook as the decoders read it. Tables have one element per entry of each class, at index class *
/// kStoreEntries + entry. They take 120 KB, of which each kernel reads half or less.
///
/// An example: the entry with DC width 6 and the widths 3, 2, 2 at the coefficients 1, 8, 9 (as in store_format.h).
///
///   heads       positions = 0x302 (bits 1, 8 and 9), dc_width = 6, counts = 3
///   order       1, 8, 9, then zeros: bit j of a block's mask belongs to coefficient order[j]
///   fields      row 0 is 0x0700 (byte 1 has 3 low bits), row 1 is 0x0303 (bytes 0 and 1 have 2 low bits), others 0
///   width_bits  3 is 011 and 2 is 010 in binary: [0] = 0x002 (coefficient 1), [1] = 0x302 (all three), [2] = [3] = 0
///
/// A block of this entry whose mask bits are 1, 0, 1 has values at the coefficients 1 and 9 only. Decoding it:
///
///   mask        bits 101 spread to the positions 0x302 (pdep) give 0x202
///   value bits  1 * popcount(0x202 & 0x002) + 2 * popcount(0x202 & 0x302) = 1 + 4 = 5, which is 3 + 2
///   values      fields of row 0 and row 1, kept where the mask is set, are 0x0700 and 0x0300: the next 3 bits go to
///               byte 1 of row 0, and the 2 bits after them to byte 1 of row 1 (pdep)
struct CodebookTables {
  static constexpr int kCount = kStoreClasses * kStoreEntries;
  struct Head {
    uint64_t positions;  // bit k is set when coefficient k has a mask bit; bit 0 (the DC) never is
    uint32_t dc_width;
    // Low 16 bits: number of mask bits; high 16 bits: 1 for entry 255. One sum over a group gives both.
    uint32_t counts;
    int mask_bits() const { return static_cast<int>(counts & 0xFFFF); }
  };
  alignas(64) std::array<ClassWidths, kStoreClasses> widths;
  // One u64 per row, one byte per coefficient: its low `width` bits are set.
  alignas(64) std::array<std::array<uint64_t, 8>, kCount> fields;
  alignas(64) std::array<std::array<uint8_t, 64>, kCount> order;  // element j: the coefficient of the mask's bit j
  // Element b: bit k is bit b of coefficient k's width.
  alignas(64) std::array<std::array<uint64_t, 4>, kCount> width_bits;
  std::array<Head, kCount> heads;

  const EntryWidths& widths_of(int entry) const { return widths[entry / kStoreEntries][entry % kStoreEntries]; }
};

/// A codebook has 2 classes of 256 entries. Class 0 is for the first component, class 1 for the second and third of
/// three. Entry 254 has 7 bits for every AC and 12 for the DC. Entry 255 has no widths: the store keeps the 64
/// coefficients of such a block as they are. The other entries are trained.
///
/// Stored, it has kByteCount bytes: for class 0 and then class 1, for each entry 0 .. 253, 64 widths of 4 bits, the
/// lower half of a byte first. A u32 follows: the CRC-32C of all bytes before it.
///
/// Memory: 120 KB. Thread-safety: immutable after construction.
class Codebook {
 public:
  static constexpr size_t kByteCount = size_t{kStoreClasses} * kTrainedEntries * kBlockSize / 2 + 4;

  /// Entries 254 and 255 of `widths` are ignored. Requires that valid_widths() holds for the others.
  explicit Codebook(const std::array<ClassWidths, kStoreClasses>& widths);
  /// Throws corrupt_error for another length or CRC-32C, or for an entry that valid_widths() refuses. The message does
  /// not name the file.
  static Codebook parse(std::span<const uint8_t> bytes);

  std::vector<uint8_t> bytes() const;
  const CodebookTables& tables() const { return *tables_; }

 private:
  std::unique_ptr<CodebookTables> tables_;
};

/// Whether no width is above its limit and no row has more than kMaxRowBits bits, without the DC.
bool valid_widths(const EntryWidths& widths);

/// The class whose entries the blocks of a component have.
constexpr int store_class(int component_count, int component) { return component_count == 3 && component > 0 ? 1 : 0; }

}  // namespace penstock::detail
