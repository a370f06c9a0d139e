// HuffmanTable: a DHT table prepared for decoding up to two symbols per look-up.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "loader/jpeg/base/header.h"

namespace penstock::detail {

/// The number of bits that index a table. With 10 bits a table takes 8 KB, so that the AC tables of luma and chroma fit
/// into an L1 cache of 32 KB together with the rest. 11 bits find a second symbol more often and were not faster.
constexpr int kLookupBits = 10;

/// What the next kLookupBits bits begin with: one symbol and its value bits, or two symbols when both codes and the
/// first value end inside of these bits. Each field is one byte, from the lowest byte on, and holds a number below 64
/// (run1 and step2: below 256):
///
///   length  bits of the whole entry; 0: a code longer than kLookupBits, or 16 zeros (0xF0): use HuffmanTable::symbol()
///   code1   bits of the first code; its value begins after them
///   shift1  (64 - bits of the first value) modulo 64
///   run1    number of zeros before the first value; kEndRun: end of block; kInvalidRun: no such code
///   code2   bits before the second value
///   shift2  (64 - bits of the second value) modulo 64
///   step2   places from the first value to the second; kEndRun + 1: end of block; 0: there is no second symbol
///
/// An example with the AC codes for luma of T.81, annex K: 1100 is one zero and a value of 1 bit, 01 is a value of 2
/// bits. The ten bits 1100 0 01 10 x hold both symbols and their values, -1 and 2:
///
///         length  code1   shift1  run1    code2   shift2  step2
///         9       4       63      1       7       62      1
///
/// HuffmanTable makes it by adding what a second symbol contributes, (4, 0, 0, 0, 2, 62, 1) for 01 10, to the entry of
/// the first symbol alone, (5, 4, 63, 1, 5, 0, 0).
///
/// Entries are read byte by byte, because processors can do three loads per cycle but only two shifts. When entries
/// were taken apart by shifts and McuRun::rows was updated with every symbol, a coded bit took 0.72 ns instead of 0.60
/// ns.
using HuffmanEntry = uint64_t;
enum HuffmanField { kLength, kCode1, kShift1, kRun1, kCode2, kShift2, kStep2 };
static_assert(std::endian::native == std::endian::little);

constexpr HuffmanEntry huffman_entry(int length, int code1, int size1, int run1, int code2, int size2, int step2) {
  return static_cast<uint64_t>(length) | static_cast<uint64_t>(code1) << 8 | static_cast<uint64_t>(-size1 & 63) << 16 |
         static_cast<uint64_t>(run1) << 24 | static_cast<uint64_t>(code2) << 32 |
         static_cast<uint64_t>(-size2 & 63) << 40 | static_cast<uint64_t>(step2) << 48;
}

/// After the last symbol of a block, decoding stands at its place + 1. That is 64 when the last coefficient was coded
/// and more than kMinEnd after an end of block; anything between the two means a broken block.
constexpr int kEndRun = 128, kInvalidRun = 64, kMinEnd = 128;

/// One symbol, as HuffmanTable::symbol() finds it without the entries.
struct HuffmanSymbol {
  int code_length, size, run;  // run is as run1 of HuffmanEntry
};

/// The decoding table for one DHT table. Codes are canonical (T.81, annex C) and, as libjpeg demands, no code consists
/// of ones alone. A stream that is followed by ones after its end is therefore always found to be broken there.
class HuffmanTable {
 public:
  /// A table for DC (`is_dc`) has one symbol per look-up, with a value of at most 15 bits. Takes about 1 us; does
  /// nothing when `spec` is equal to the one of the last call. Errors: corrupt_error when the codes do not fit.
  void build(const HuffmanSpec& spec, bool is_dc);

  /// The fields of the entry for the next bits, which are the top bits of `buffer`.
  const uint8_t* entry(uint64_t buffer) const {
    return reinterpret_cast<const uint8_t*>(&entries_[buffer >> (64 - kLookupBits)]);
  }

  /// The symbol whose code, of any length, is at the top of `buffer`. When there is none, its run is kInvalidRun and
  /// its code length 1.
  HuffmanSymbol symbol(uint64_t buffer) const;

 private:
  void find_following();
  void fill_entries();

  alignas(64) std::array<HuffmanEntry, 1 << kLookupBits> entries_;
  std::array<HuffmanEntry, 1 << kLookupBits> following_;
  HuffmanSpec spec_;
  bool is_dc_ = false;
  // One entry per code length: the end of its codes, shifted to the top of 16 bits, and the index of its first symbol
  // minus its first code.
  std::array<uint32_t, 17> end_{};
  std::array<int32_t, 17> offset_{};
};

}  // namespace penstock::detail
