// HuffmanTable: canonical codes, then entries of one symbol, then the pairs.
#include "loader/jpeg/huffman_table.h"

#include <algorithm>
#include <bit>

#include "core/error.h"
#include "core/text.h"

namespace penstock::detail {
namespace {

/// An entry as a number: fields are bytes, so that adding two never carries from one to the next.
constexpr uint64_t packed(int length, int code1, int shift1, int run1, int code2, int shift2, int step2) {
  return static_cast<uint64_t>(length) | static_cast<uint64_t>(code1) << 8 | static_cast<uint64_t>(shift1) << 16 |
         static_cast<uint64_t>(run1) << 24 | static_cast<uint64_t>(code2) << 32 | static_cast<uint64_t>(shift2) << 40 |
         static_cast<uint64_t>(step2) << 48;
}
static_assert(std::endian::native == std::endian::little, "HuffmanEntry's bytes are those of packed()");

struct Symbol {
  int size, run;  // bits of the value; zeros before it, or kEndRun

  /// Of an AC symbol, any with no value but 0xF0 (16 zeros) ends the block, as in libjpeg.
  constexpr Symbol(int symbol, bool is_dc) : size(symbol & 15), run(is_dc ? 0 : symbol >> 4) {
    if (!is_dc && size == 0 && run != 15) run = kEndRun;
  }
};

constexpr uint64_t single(int code_length, Symbol symbol) {
  return packed(code_length + symbol.size, code_length, 63 - symbol.size, symbol.run, code_length + symbol.size, 63, 0);
}

constexpr int kSize = 1 << kLookupBits;

}  // namespace

void HuffmanTable::check(const HuffmanSpec& spec, bool is_dc) const {
  if (spec.symbol_count < 1) throw corrupt_error("JPEG: Huffman table is not defined; expected DHT before the scan");
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
  if (is_dc)
    fill_single();
  else
    fill_pairs();
}

void HuffmanTable::fill_single() {
  auto* out = reinterpret_cast<uint64_t*>(entries_.data());
  uint64_t* const end = out + kSize;
  const uint8_t* symbol = spec_.symbols.data();
  for (int length = 1; length <= kLookupBits; ++length) {
    for (int i = 0; i < spec_.counts[length - 1]; ++i)
      out = std::fill_n(out, kSize >> length, single(length, Symbol(*symbol++, is_dc_)));
  }
  std::fill(out, end, 0);
}

void HuffmanTable::fill_pairs() {
  // following[m + j]: what a second symbol adds to an entry when the m = 2^bits places after the first hold j; 0 when
  // its code does not end there.
  std::array<uint64_t, 2 * kSize> following;
  for (int bits = 0; bits < kLookupBits; ++bits) {
    uint64_t* out = following.data() + (1 << bits);
    uint64_t* const end = out + (1 << bits);
    const uint8_t* next = spec_.symbols.data();
    for (int length = 1; length <= bits; ++length) {
      for (int i = 0; i < spec_.counts[length - 1]; ++i) {
        const Symbol symbol(*next++, false);
        const uint64_t value =
            packed(length + symbol.size, 0, 0, 0, length, 0, symbol.run + 1) - packed(0, 0, 0, 0, 0, symbol.size, 0);
        out = std::fill_n(out, 1 << (bits - length), value);
      }
    }
    std::fill(out, end, 0);
  }
  auto* out = reinterpret_cast<uint64_t*>(entries_.data());
  uint64_t* const end = out + kSize;
  const uint8_t* next = spec_.symbols.data();
  for (int length = 1; length <= kLookupBits; ++length) {
    for (int i = 0; i < spec_.counts[length - 1]; ++i) {
      const Symbol symbol(*next++, false);
      const uint64_t first = single(length, symbol);
      const int left = kLookupBits - length - symbol.size;
      if (left <= 0 || symbol.run == kEndRun) {
        out = std::fill_n(out, kSize >> length, first);
        continue;
      }
      for (int value = 0; value < 1 << symbol.size; ++value) {
        const uint64_t* second = following.data() + (1 << left);
        for (int j = 0; j < 1 << left; ++j) *out++ = first + second[j];
      }
    }
  }
  std::fill(out, end, 0);
}

HuffmanEntry HuffmanTable::long_entry(uint64_t buffer) const {
  const auto next = static_cast<uint32_t>(buffer >> 48);
  uint64_t value = packed(1, 1, 63, kInvalidRun, 1, 63, 0);
  for (int length = kLookupBits + 1; length <= 16; ++length) {
    if (next >= end_[length]) continue;
    const int index = offset_[length] + static_cast<int>(next >> (16 - length));
    value = single(length, Symbol(spec_.symbols[index], is_dc_));
    break;
  }
  return std::bit_cast<HuffmanEntry>(value);
}

}  // namespace penstock::detail
