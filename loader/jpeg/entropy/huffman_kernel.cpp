// The inner loop of Huffman decoding, compiled once for each instruction set because BMI2 has faster shifts.
//
// What a symbol costs is a chain of dependent steps, from the buffer to the table entry to the shift and back to the
// buffer (about 8 cycles), plus a mispredicted branch at the end of each block. Nothing else is therefore put into that
// chain. A look-up gives two symbols where it can, values are computed beside the chain and without a branch, and 8
// bytes are loaded for every two look-ups (two look-ups take at most 52 bits, and 56 are available).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "loader/jpeg/entropy/huffman_kernel.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.h
#include <cstring>

#include "hwy/highway.h"
#include "loader/jpeg/base/nonzero-inl.h"
#include "loader/jpeg/entropy/huffman_kernel.h"

#ifndef PENSTOCK_HUFFMAN_PLACES
#define PENSTOCK_HUFFMAN_PLACES
namespace penstock::detail {

/// The greatest place is 63 + 15 for a first value, and 129 more for an end of block as the second symbol.
constexpr int kPlaceCount = 63 + 15 + kEndRun + 1 + 1;

/// Element k is where the k-th coefficient in zigzag order lies in the block. Elements from 64 on are 0, the place of
/// the DC: ends of block and runs that are too long write a meaningless value there, which the DC overwrites.
constexpr std::array<uint8_t, kPlaceCount> make_places() {
  std::array<uint8_t, kPlaceCount> places{};
  // Goes along the antidiagonals, downwards on odd ones and upwards on even ones (T.81, figure 5).
  int k = 0;
  for (int sum = 0; sum < 15; ++sum) {
    for (int i = 0; i <= sum; ++i) {
      const int row = sum % 2 == 1 ? i : sum - i, column = sum - row;
      if (row < 8 && column < 8) places[k++] = static_cast<uint8_t>(8 * row + column);
    }
  }
  return places;
}

constexpr auto kPlaces = make_places();

/// Element (64 - n) modulo 64 is 1 - 2^n, for a value of n bits.
constexpr std::array<int16_t, 64> make_negative() {
  std::array<int16_t, 64> negative{};
  for (int size = 1; size < 16; ++size) negative[64 - size] = static_cast<int16_t>(1 - (1 << size));
  return negative;
}

constexpr auto kNegative = make_negative();

}  // namespace penstock::detail
#endif

HWY_BEFORE_NAMESPACE();
namespace penstock::detail::HWY_NAMESPACE {

/// Fills the buffer to at least 56 bits. For example, with bit_count 20 it loads 8 bytes from `next`, puts them after
/// those 20 bits, advances `next` by 5 bytes and sets bit_count to 60. The 4 bits that remain at the end of the buffer
/// are not counted; they are the first bits of the new *next and are loaded again.
HWY_INLINE void refill(BitPosition& at) {
  uint64_t word;
  std::memcpy(&word, at.next, sizeof word);
  at.buffer |= __builtin_bswap64(word) >> at.bit_count;
  at.next += (63 - at.bit_count) >> 3;
  at.bit_count |= 56;
}

HWY_INLINE void consume(BitPosition& at, uint32_t bit_count) {
  at.buffer <<= bit_count & 63;
  at.bit_count -= bit_count;
}

/// Goes back by `bit_count` bits. Requires that at least so many bits have been read.
HWY_INLINE void unread(BitPosition& at, uint32_t bit_count) {
  const uint64_t held = at.bit_count + bit_count;  // number of bits between the new position and `next`
  at.next -= (held + 7) / 8;
  at.buffer = 0;
  at.bit_count = 0;
  refill(at);
  consume(at, (8 - held % 8) % 8);
}

/// The value whose n bits are the top bits of `bits` (T.81, F.2.2.1, EXTEND): the number in these bits, minus 2^n - 1
/// where the first of them is 0. `shift` is 64 - n. With n = 0 the result is meaningless.
HWY_INLINE int16_t value_of(uint64_t bits, uint8_t shift) {
  const int32_t magnitude = static_cast<int32_t>(bits >> (shift & 63));
  const int32_t negative = kNegative[shift];
  return static_cast<int16_t>(magnitude + (static_cast<int64_t>(bits) < 0 ? 0 : negative));
}

HWY_INLINE bool decode_dc(const HuffmanTable& table, BitPosition& at, int16_t& predictor) {
  refill(at);
  const uint8_t* entry = table.entry(at.buffer);
  int length = entry[kLength], code_length = entry[kCode1];
  uint8_t shift = entry[kShift1];
  if (HWY_UNLIKELY(length == 0)) {
    const HuffmanSymbol symbol = table.symbol(at.buffer);
    if (symbol.run == kInvalidRun) return false;
    length = symbol.code_length + symbol.size;
    code_length = symbol.code_length;
    shift = -symbol.size & 63;
  }
  // A difference of 0 (one in four) has no value bits: shift is 0 and the result of value_of() is meaningless. The mask
  // makes it 0 without a branch.
  const int difference = value_of(at.buffer << (code_length & 63), shift) & -static_cast<int>(shift != 0);
  predictor = static_cast<int16_t>(static_cast<uint16_t>(predictor + difference));
  consume(at, static_cast<uint32_t>(length));
  return true;
}

/// Takes what the table has no entry for: a code longer than kLookupBits, or 16 zeros. About one look-up in a hundred.
/// Leaves 56 bits or more in the buffer.
template <bool kStores>
HWY_INLINE void take_rare(const HuffmanTable& table, BitPosition& at, int16_t* block, int& k) {
  HuffmanSymbol symbol;
  for (;;) {
    refill(at);
    symbol = table.symbol(at.buffer);
    if (symbol.size > 0 || symbol.run != 15) break;
    consume(at, symbol.code_length);
    k += 16;
    if (k > 63) {  // libjpeg takes this as the end of the block
      k = 64;
      return refill(at);
    }
  }
  const int k1 = k + symbol.run;
  if (kStores && symbol.size > 0 && k1 < 64)
    block[kPlaces[k1]] = value_of(at.buffer << symbol.code_length, static_cast<uint8_t>(64 - symbol.size));
  k = k1 + 1;
  consume(at, symbol.code_length + symbol.size);
  refill(at);
}

/// Writes the one or two symbols of a look-up to the block. `k` is the next place in zigzag order, before and after the
/// call. Returns the entry, or nullptr when take_rare() was needed.
///
/// The example of huffman_table.h at the begin of a block (k = 1): the bits 1100 0 01 10 .., whose entry has length 9,
/// code1 4, shift1 63, run1 1, code2 7, shift2 62, step2 1.
///
///   k1 = 1 + 1 = 2, k2 = 2 + 1 = 3               places of the two values; place 1 stays 0
///   first   bits after 4: 0 ..,  shift 63: 0     begins with 0: 0 + (1 - 2^1) = -1, to kPlaces[2] = 8
///   second  bits after 7: 10 .., shift 62: 2     begins with 1: 2, to kPlaces[3] = 16
///   k = k2 + 1 = 4, 9 bits are consumed
template <bool kStores>
HWY_INLINE const uint8_t* take(const HuffmanTable& table, BitPosition& at, int16_t* block, int& k) {
  const uint8_t* entry = table.entry(at.buffer);
  const uint8_t length = entry[kLength];
  if (HWY_UNLIKELY(length == 0)) {
    take_rare<kStores>(table, at, block, k);
    return nullptr;
  }
  const int k1 = k + entry[kRun1], k2 = k1 + entry[kStep2];
  if constexpr (kStores) {
    // The second value is written before the first one. When there is no second symbol, k2 is k1, and the first value
    // overwrites what was written.
    const int16_t second = value_of(at.buffer << (entry[kCode2] & 63), entry[kShift2]);
    const int16_t first = value_of(at.buffer << (entry[kCode1] & 63), entry[kShift1]);
    block[kPlaces[k2]] = second;
    block[kPlaces[k1]] = first;
  }
  k = k2 + 1;
  consume(at, length);
  return entry;
}

template <bool kStores>
HWY_INLINE bool decode_ac(const HuffmanTable& table, BitPosition& at, int16_t* block) {
  const uint8_t* entry;
  int k = 1;
  do {
    refill(at);
    entry = take<kStores>(table, at, block, k);
    if (k > 63) break;
    entry = take<kStores>(table, at, block, k);
  } while (k <= 63);
  if (entry != nullptr && entry[kStep2] != 0 && k - 1 - entry[kStep2] >= 63) {
    // The first symbol filled the last place (or is beyond it), so that the block has no end of block. The second
    // symbol belongs to the next block.
    if (k - 1 - entry[kStep2] > 63) return false;
    unread(at, entry[kLength] - entry[kCode1] - (-entry[kShift1] & 63));
    return true;
  }
  return k == 64 || k > kMinEnd;
}

/// McuRun::rows of a block. It is computed some time after the block was written, because a load of what has just been
/// stored in smaller parts must wait for all of these stores.
HWY_INLINE uint8_t used_rows(const int16_t* block) {
  const int last = 63 - __builtin_clzll(nonzero_places(block) | 1);
  return static_cast<uint8_t>(last / 8 + (last > 0));
}

template <bool kStores>
int decode(const McuTables& tables, BitPosition& position, DcPredictors& dc, int mcu_count, const uint8_t* safe_end,
           const McuRun& run) {
  BitPosition at = position;
  int16_t* block = run.blocks;
  int mcu = 0;
  for (; mcu < mcu_count && at.next <= safe_end; ++mcu) {
    for (int i = 0; i < tables.block_count; ++i) {
      const auto& [dc_table, ac_table, component] = tables.blocks[i];
      if constexpr (kStores) std::memset(block, 0, kBlockSize * sizeof(int16_t));
      if (!decode_dc(*dc_table, at, dc[component])) return -1;
      if (!decode_ac<kStores>(*ac_table, at, block)) return -1;
      if constexpr (kStores) {
        block[0] = dc[component];
        block += kBlockSize;
      }
    }
  }
  if constexpr (kStores)
    for (int i = 0; i < mcu * tables.block_count; ++i) run.rows[i] = used_rows(run.blocks + i * kBlockSize);
  position = at;
  return mcu;
}

int decode_mcus(const McuTables& tables, BitPosition& at, DcPredictors& dc, int mcu_count, const uint8_t* safe_end,
                const McuRun& run) {
  return run.blocks == nullptr ? decode<false>(tables, at, dc, mcu_count, safe_end, run)
                               : decode<true>(tables, at, dc, mcu_count, safe_end, run);
}

}  // namespace penstock::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace penstock::detail {

HWY_EXPORT(decode_mcus);

int decode_mcus(const McuTables& tables, BitPosition& at, DcPredictors& dc, int mcu_count, const uint8_t* safe_end,
                const McuRun& run) {
  return HWY_DYNAMIC_DISPATCH(decode_mcus)(tables, at, dc, mcu_count, safe_end, run);
}

}  // namespace penstock::detail
#endif  // HWY_ONCE
