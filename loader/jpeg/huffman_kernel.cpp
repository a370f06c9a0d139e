// The inner loop of Huffman decoding, compiled once for each instruction set for the sake of its shifts (BMI2).
//
// A symbol's cost is the way from buffer to table to shift to buffer, 8 cycles or so, and a mispredicted branch where a
// block ends. So nothing else is on that way: a look-up gives two symbols when it can, values are worked out beside it
// without a branch, and 8 bytes are loaded for every two look-ups (two take 52 bits at most, 56 are there).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "loader/jpeg/huffman_kernel.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.h
#include <cstring>

#include "hwy/highway.h"
#include "loader/jpeg/huffman_kernel.h"

#ifndef PENSTOCK_HUFFMAN_PLACES
#define PENSTOCK_HUFFMAN_PLACES
namespace penstock::detail {

/// Greatest place: 63 + 15 for a first value, 129 more for an end of block as the second symbol.
constexpr int kPlaceCount = 63 + 15 + kEndRun + 1 + 1;

/// Where the k-th coefficient lies in the block. From 64 on (ends of block, runs that are too long) at 0, where the DC
/// will be written.
constexpr std::array<uint8_t, kPlaceCount> make_places() {
  std::array<uint8_t, kPlaceCount> places{};
  // Along the antidiagonals, odd ones downwards (T.81, figure 5).
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

/// 1 - 2^n for the shift 64 - n, modulo 64.
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

namespace hn = hwy::HWY_NAMESPACE;

/// Afterwards at least 56 bits are there.
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

/// Goes back by `bit_count` bits, which must not be more than have been read.
HWY_INLINE void unread(BitPosition& at, uint32_t bit_count) {
  const uint64_t held = at.bit_count + bit_count;  // bits between the new position and next
  at.next -= (held + 7) / 8;
  at.buffer = 0;
  at.bit_count = 0;
  refill(at);
  consume(at, (8 - held % 8) % 8);
}

/// The value whose bits are the top ones of `bits` (T.81, F.2.2.1, EXTEND): 2^n - 1 less where they begin with 0.
/// `shift`: 64 - n, n at least 1; otherwise the result means nothing.
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
  // A difference of 0, one in four, has no bits: shift is 0, and the value means nothing. Without a branch.
  const int difference = value_of(at.buffer << (code_length & 63), shift) & -static_cast<int>(shift != 0);
  predictor = static_cast<int16_t>(static_cast<uint16_t>(predictor + difference));
  consume(at, static_cast<uint32_t>(length));
  return true;
}

/// A code beyond the table, or 16 zeros: about one in a hundred. Leaves 56 bits or more.
template <bool kStores>
HWY_INLINE void take_rare(const HuffmanTable& table, BitPosition& at, int16_t* block, int& k) {
  HuffmanSymbol symbol;
  for (;;) {
    refill(at);
    symbol = table.symbol(at.buffer);
    if (symbol.size > 0 || symbol.run != 15) break;
    consume(at, symbol.code_length);
    k += 16;
    if (k > 63) {  // the block's end, as libjpeg takes it
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

/// One look-up's symbols into the block; `k` is the next place before and after. Returns the entry; nullptr: a rare
/// one.
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
    // The second first: when there is none it is written to the first one's place.
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
    // The first symbol ended the block, without an end of block, and the second was none.
    if (k - 1 - entry[kStep2] > 63) return false;
    unread(at, entry[kLength] - entry[kCode1] - (-entry[kShift1] & 63));
    return true;
  }
  return k == 64 || k > kMinEnd;
}

/// McuRun::rows of a block. Later than the block was written, because loading what has just been stored in smaller
/// parts waits for all the stores.
HWY_INLINE uint8_t used_rows(const int16_t* block) {
#if HWY_TARGET == HWY_SCALAR
  int last = 63;
  while (last > 0 && block[last] == 0) --last;
#else
  const hn::CappedTag<int16_t, 32> d;
  uint64_t places = 0;
  for (size_t i = 0; i < kBlockSize; i += hn::Lanes(d)) {
    uint32_t bits = 0;
    uint8_t bytes[8];
    hn::StoreMaskBits(d, hn::Ne(hn::Load(d, block + i), hn::Zero(d)), bytes);
    std::memcpy(&bits, bytes, hn::Lanes(d) / 8);
    places |= uint64_t{bits} << i;
  }
  const int last = 63 - __builtin_clzll(places | 1);
#endif
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
