// HuffmanTable: a DHT table made ready for decoding, two symbols a look-up.
#pragma once

#include <array>
#include <cstdint>

#include "loader/jpeg/header.h"

namespace penstock::detail {

/// Bits that index a table. 10: 8 KB, so that luma's and chroma's AC tables lie in an L1 cache of 32 KB together with
/// the rest; 11 finds a second symbol more often and was no faster.
constexpr int kLookupBits = 10;

/// What the next kLookupBits bits begin with: one symbol with its value's bits, or two when both codes and the first
/// value end inside of them. All fields in such a form that a decoder's additions and shifts take them as they are: the
/// value's bits begin at the buffer's bit `code` from the top, and (x >> 1) >> shift is 0 when there are none.
struct alignas(8) HuffmanEntry {
  uint8_t length;  // bits of the whole entry; 0: a code longer than kLookupBits
  uint8_t code1;   // bits of the first code
  uint8_t shift1;  // 63 - the first value's bits
  uint8_t run1;    // zeros before the first value; kEndRun: end of block; kInvalidRun: no code
  uint8_t code2;   // bits before the second value
  uint8_t shift2;  // 63 - the second value's bits
  uint8_t step2;   // places from the first value to the second; 0: there is no second
  uint8_t unused;
};

/// k + 1 of a block: 64 when its last coefficient was coded, above kMinEnd after an end of block, between them broken.
constexpr int kEndRun = 128, kInvalidRun = 64, kMinEnd = 128;

/// Decoding table of one DHT table. Codes are canonical (T.81, annex C) and, as libjpeg demands, no code is all ones.
/// Hence a stream that goes on with ones behind its end is always found to be broken there.
class HuffmanTable {
 public:
  /// `is_dc`: one symbol a look-up, of 15 bits at most. About 1 us; does nothing when `spec` is the one it has.
  /// Errors: corrupt_error when the codes do not fit.
  void build(const HuffmanSpec& spec, bool is_dc);

  /// `buffer`: the next bits, from the top.
  const HuffmanEntry& entry(uint64_t buffer) const { return entries_[buffer >> (64 - kLookupBits)]; }

  /// The entry of one symbol whose code is longer than kLookupBits, or an invalid one of length 1.
  HuffmanEntry long_entry(uint64_t buffer) const;

 private:
  void check(const HuffmanSpec& spec, bool is_dc) const;
  void fill_single();
  void fill_pairs();

  alignas(64) std::array<HuffmanEntry, 1 << kLookupBits> entries_;
  HuffmanSpec spec_;
  bool is_dc_ = false;
  // Of each length: the end of its codes as the top of 16 bits, and the symbol of its first code minus that code.
  std::array<uint32_t, 17> end_{};
  std::array<int32_t, 17> offset_{};
};

}  // namespace penstock::detail
