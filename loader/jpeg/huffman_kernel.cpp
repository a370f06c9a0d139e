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

/// Of the k-th coefficient, by k: its place in the block, and 1 << its row. From 64 on (ends of block, broken runs)
/// place 63 and no row.
struct Places {
  std::array<uint8_t, 208> natural{}, row_bit{};
};
/// Greatest k: 63 + 15 for a first value, 129 more for an end of block as the second symbol.
static_assert(63 + 15 + kEndRun + 1 < 208 && 63 + kEndRun < 208);

constexpr Places make_places() {
  Places places;
  // Along the antidiagonals, odd ones downwards (T.81, figure 5).
  int k = 0;
  for (int sum = 0; sum < 15; ++sum) {
    for (int i = 0; i <= sum; ++i) {
      const int row = sum % 2 == 1 ? i : sum - i, column = sum - row;
      if (row > 7 || column > 7) continue;
      places.natural[k] = static_cast<uint8_t>(8 * row + column);
      places.row_bit[k++] = static_cast<uint8_t>(1 << row);
    }
  }
  for (; k < 208; ++k) places.natural[k] = 63;
  return places;
}

constexpr Places kPlaces = make_places();

}  // namespace penstock::detail
#endif

HWY_BEFORE_NAMESPACE();
namespace penstock::detail::HWY_NAMESPACE {

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

/// The value whose bits are the top ones of `bits` (T.81, F.2.2.1, EXTEND): a leading 0 means the complement, negated.
HWY_INLINE int16_t value_of(uint64_t bits, uint8_t shift) {
  const auto sign = static_cast<uint64_t>(static_cast<int64_t>(~bits) >> 63);
  const uint64_t magnitude = (bits ^ sign) >> 1 >> (shift & 63);
  return static_cast<int16_t>((magnitude ^ sign) - sign);
}

/// A code beyond the table: about one in a hundred.
HWY_NOINLINE const HuffmanEntry* find_long(const HuffmanTable& table, BitPosition& at, HuffmanEntry& entry) {
  refill(at);
  entry = table.long_entry(at.buffer);
  return &entry;
}

HWY_INLINE bool decode_dc(const HuffmanTable& table, BitPosition& at, int16_t& predictor) {
  refill(at);
  HuffmanEntry rare;
  const HuffmanEntry* entry = &table.entry(at.buffer);
  if (HWY_UNLIKELY(entry->length == 0)) {
    entry = find_long(table, at, rare);
    if (entry->run1 == kInvalidRun) return false;
  }
  const int difference = value_of(at.buffer << (entry->code1 & 63), entry->shift1);
  predictor = static_cast<int16_t>(static_cast<uint16_t>(predictor + difference));
  consume(at, entry->length);
  return true;
}

/// Takes one look-up's symbols into the block. `k` is the next place; returns that after it.
template <bool kStores>
HWY_INLINE int take(const HuffmanEntry& entry, const BitPosition& at, int k, int16_t* block, uint32_t& row_bits) {
  const int k1 = k + entry.run1, k2 = k1 + entry.step2;
  if constexpr (kStores) {
    // The second first: without one it is a 0 in the first one's place, or in place 63 before that has its value.
    block[kPlaces.natural[k2]] = value_of(at.buffer << (entry.code2 & 63), entry.shift2);
    block[kPlaces.natural[k1]] = value_of(at.buffer << (entry.code1 & 63), entry.shift1);
    row_bits |= kPlaces.row_bit[k1] | kPlaces.row_bit[k2];
  }
  return k2 + 1;
}

template <bool kStores>
HWY_INLINE bool decode_ac(const HuffmanTable& table, BitPosition& at, int16_t* block, uint32_t& row_bits) {
  HuffmanEntry rare;
  const HuffmanEntry* entry;
  int k = 1, before;
  const auto step = [&]() HWY_ATTR {
    entry = &table.entry(at.buffer);
    if (HWY_UNLIKELY(entry->length == 0)) entry = find_long(table, at, rare);
    before = k;
    k = take<kStores>(*entry, at, k, block, row_bits);
    consume(at, entry->length);
  };
  do {
    refill(at);
    step();
    if (k > 63) break;
    if (HWY_UNLIKELY(entry == &rare)) continue;  // up to 31 bits: 25 are left, and a look-up may take 26
    step();
  } while (k <= 63);
  const int k1 = before + entry->run1;
  if (HWY_UNLIKELY(k1 >= 63 && entry->step2 != 0)) {
    // The first symbol ended the block, without an end of block, and the second was none.
    if (k1 > 63) return false;
    unread(at, entry->length - (entry->code1 + 63U - entry->shift1));
    return true;
  }
  return k == 64 || k > kMinEnd;
}

template <bool kStores>
int decode(const McuTables& tables, BitPosition& position, DcPredictors& dc, int mcu_count, const uint8_t* safe_end,
           McuRun run) {
  BitPosition at = position;
  int mcu = 0;
  for (; mcu < mcu_count && at.next <= safe_end; ++mcu) {
    for (int i = 0; i < tables.block_count; ++i) {
      const auto& [dc_table, ac_table, component] = tables.blocks[i];
      if constexpr (kStores) std::memset(run.blocks, 0, kBlockSize * sizeof(int16_t));
      if (!decode_dc(*dc_table, at, dc[component])) return -1;
      uint32_t row_bits = 0;
      if (!decode_ac<kStores>(*ac_table, at, run.blocks, row_bits)) return -1;
      if constexpr (kStores) {
        run.blocks[0] = dc[component];
        *run.rows++ = static_cast<uint8_t>(32 - __builtin_clz(row_bits << 1 | 1) - 1);
        run.blocks += kBlockSize;
      }
    }
  }
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
