// HuffmanTable: builds the canonical codes, then the entries of one symbol, then those of two symbols.
#include "loader/jpeg/base/huffman_table.h"

#include <algorithm>

#include "core/error.h"
#include "core/text.h"

namespace penstock::detail {
namespace {

constexpr int kSize = 1 << kLookupBits;

/// An AC symbol without a value ends the block, as in libjpeg, unless it is 0xF0 (16 zeros).
HuffmanSymbol symbol_of(int code_length, int symbol, bool is_dc) {
  const int size = symbol & 15, run = symbol >> 4;
  if (is_dc) return {code_length, symbol, 0};
  return {code_length, size, size == 0 && run != 15 ? kEndRun : run};
}

bool is_zeros(const HuffmanSymbol& symbol, bool is_dc) { return !is_dc && symbol.size == 0 && symbol.run == 15; }

HuffmanEntry single(const HuffmanSymbol& symbol) {
  const int length = symbol.code_length + symbol.size;
  return huffman_entry(length, symbol.code_length, symbol.size, symbol.run, length, 0, 0);
}

void check(const HuffmanSpec& spec, bool is_dc) {
  if (spec.symbol_count < 1)
    throw corrupt_error(concat("JPEG: Huffman table of ", spec.symbol_count, " codes; expected one or more"));
  int code = 0;
  for (int length = 1; length <= 16; ++length) {
    code = 2 * code + spec.counts[length - 1];
    if (spec.counts[length - 1] > 0 && code >= 1 << length)
      throw corrupt_error(concat("JPEG: Huffman table has ", int{spec.counts[length - 1]}, " codes of ", length,
                                 " bits; expected no more than fit, and none of ones alone"));
  }
  for (int i = 0; i < spec.symbol_count && is_dc; ++i) {
    if (spec.symbols[i] > 15)
      throw corrupt_error(concat("JPEG: DC difference of ", int{spec.symbols[i]}, " bits; expected 15 or fewer"));
  }
}

}  // namespace

void HuffmanTable::build(const HuffmanSpec& spec, bool is_dc) {
  if (spec.symbol_count > 0 && spec.symbol_count == spec_.symbol_count && is_dc == is_dc_ &&
      spec.counts == spec_.counts && spec.symbols == spec_.symbols)
    return;
  check(spec, is_dc);
  spec_ = spec;
  is_dc_ = is_dc;
  int code = 0, index = 0;
  for (int length = 1; length <= 16; ++length) {
    const int count = spec.counts[length - 1];
    offset_[length] = index - code;
    code += count;
    index += count;
    end_[length] = static_cast<uint32_t>(code) << (16 - length);
    code *= 2;
  }
  if (!is_dc) find_following();
  fill_entries();
}

/// Fills following_. Element 2^m + j is what a second symbol adds to an entry when m bits are left after the first
/// symbol and they hold the number j. It is 0 when no code of at most m bits begins there, and for the code of 0xF0.
void HuffmanTable::find_following() {
  for (int places = 0; places < kLookupBits; ++places) {
    HuffmanEntry* out = following_.data() + (1 << places);
    HuffmanEntry* const end = out + (1 << places);
    const uint8_t* next = spec_.symbols.data();
    for (int length = 1; length <= places; ++length) {
      for (int i = 0; i < spec_.counts[length - 1]; ++i) {
        const HuffmanSymbol symbol = symbol_of(length, *next++, false);
        const HuffmanEntry added =
            is_zeros(symbol, false) ? 0
                                    : huffman_entry(length + symbol.size, 0, 0, 0, length, symbol.size, symbol.run + 1);
        out = std::fill_n(out, 1 << (places - length), added);
      }
    }
    std::fill(out, end, 0);
  }
}

void HuffmanTable::fill_entries() {
  HuffmanEntry* out = entries_.data();
  HuffmanEntry* const end = out + kSize;
  const uint8_t* next = spec_.symbols.data();
  for (int length = 1; length <= kLookupBits; ++length) {
    for (int i = 0; i < spec_.counts[length - 1]; ++i) {
      const HuffmanSymbol symbol = symbol_of(length, *next++, is_dc_);
      const HuffmanEntry first = is_zeros(symbol, is_dc_) ? 0 : single(symbol);
      const int places = kLookupBits - length - symbol.size;
      if (is_dc_ || places <= 0 || symbol.run == kEndRun || first == 0) {
        out = std::fill_n(out, kSize >> length, first);
        continue;
      }
      const HuffmanEntry* second = following_.data() + (1 << places);
      for (int value = 0; value < 1 << symbol.size; ++value) {
        for (int j = 0; j < 1 << places; ++j) *out++ = first + second[j];
      }
    }
  }
  std::fill(out, end, 0);
}

HuffmanSymbol HuffmanTable::symbol(uint64_t buffer) const {
  const auto next = static_cast<uint32_t>(buffer >> 48);
  for (int length = 1; length <= 16; ++length) {
    if (next >= end_[length]) continue;
    const int index = offset_[length] + static_cast<int>(next >> (16 - length));
    return symbol_of(length, spec_.symbols[index], is_dc_);
  }
  return {1, 0, kInvalidRun};
}

}  // namespace penstock::detail
