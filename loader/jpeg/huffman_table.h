// HuffmanTable: a DHT table made ready for decoding, two symbols a look-up.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "loader/jpeg/header.h"

namespace penstock::detail {

/// Bits that index a table. 10: 8 KB, so that luma's and chroma's AC tables lie in an L1 cache of 32 KB together with
/// the rest; 11 finds a second symbol more often and was no faster.
constexpr int kLookupBits = 10;

/// What the next kLookupBits bits begin with: one symbol with its value's bits, or two when both codes and the first
/// value end inside of them. A byte a field, each a number below 64 (run1, step2: below 256), from the lowest on:
///
///   length  bits of the whole entry; 0: a code longer than kLookupBits, or 16 zeros (0xF0), for HuffmanTable::symbol()
///   code1   bits of the first code: its value begins there
///   shift1  64 - the first value's bits, modulo 64
///   run1    zeros before the first value; kEndRun: end of block; kInvalidRun: no code
///   code2   bits before the second value
///   shift2  64 - the second value's bits, modulo 64
///   step2   places from the first value to the second; kEndRun + 1: end of block; 0: there is no second
///
/// Read byte by byte, because processors load three times in a cycle but shift only twice: taken apart by shifts, and
/// with the rows kept up symbol by symbol, a coded bit took 0.72 ns instead of 0.60.
using HuffmanEntry = uint64_t;
enum HuffmanField { kLength, kCode1, kShift1, kRun1, kCode2, kShift2, kStep2 };
static_assert(std::endian::native == std::endian::little);

constexpr HuffmanEntry huffman_entry(int length, int code1, int size1, int run1, int code2, int size2, int step2) {
  return static_cast<uint64_t>(length) | static_cast<uint64_t>(code1) << 8 | static_cast<uint64_t>(-size1 & 63) << 16 |
         static_cast<uint64_t>(run1) << 24 | static_cast<uint64_t>(code2) << 32 |
         static_cast<uint64_t>(-size2 & 63) << 40 | static_cast<uint64_t>(step2) << 48;
}

/// After the last symbol of a block, its place + 1: 64 when the last coefficient was coded, above kMinEnd after an end
/// of block, between them in a broken block.
constexpr int kEndRun = 128, kInvalidRun = 64, kMinEnd = 128;

/// One symbol, found without the table's entries.
struct HuffmanSymbol {
  int code_length, size, run;  // run as run1
};

/// Decoding table of one DHT table. Codes are canonical (T.81, annex C) and, as libjpeg demands, no code is all ones.
/// Hence a stream that goes on with ones behind its end is always found to be broken there.
class HuffmanTable {
 public:
  /// `is_dc`: one symbol a look-up, of 15 bits at most. About 1 us; does nothing when `spec` is the one it has.
  /// Errors: corrupt_error when the codes do not fit.
  void build(const HuffmanSpec& spec, bool is_dc);

  /// The fields of the next bits, the top ones of `buffer`.
  const uint8_t* entry(uint64_t buffer) const {
    return reinterpret_cast<const uint8_t*>(&entries_[buffer >> (64 - kLookupBits)]);
  }

  /// The symbol whose code is at the top of `buffer`, of any length; a run of kInvalidRun and length 1 when there is
  /// none.
  HuffmanSymbol symbol(uint64_t buffer) const;

 private:
  void find_following();
  void fill_entries();

  alignas(64) std::array<HuffmanEntry, 1 << kLookupBits> entries_;
  std::array<HuffmanEntry, 1 << kLookupBits> following_;
  HuffmanSpec spec_;
  bool is_dc_ = false;
  // Of each length: the end of its codes as the top of 16 bits, and the index of its first symbol minus its first code.
  std::array<uint32_t, 17> end_{};
  std::array<int32_t, 17> offset_{};
};

}  // namespace penstock::detail
