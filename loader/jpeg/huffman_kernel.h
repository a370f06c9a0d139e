// The inner loop of Huffman decoding: whole MCUs out of bytes without stuffing.
#pragma once

#include <array>
#include <cstdint>

#include "loader/jpeg/coefficients.h"
#include "loader/jpeg/geometry.h"
#include "loader/jpeg/huffman_table.h"

namespace penstock::detail {

/// Where a reader stands: `buffer` holds the next bits from the top, `bit_count` of them (0 .. 63) taken from before
/// `next`; what follows them in the buffer are bits of *next on.
struct BitPosition {
  const uint8_t* next = nullptr;
  uint64_t buffer = 0, bit_count = 0;
};

/// Bytes 0xFF that must follow the last byte. No code is all ones, so that decoding ends, broken, at the first code
/// that begins there: 31 bits on at most, and 16 bytes more are loaded.
constexpr int kBitPadding = 32;
/// Bytes that one MCU takes at most: blocks of 64 codes of 16 bits with values of 15.
constexpr int kMaxMcuBytes = kMaxMcuBlocks * 64 * 31 / 8;

/// What the blocks of an MCU are decoded with.
struct McuTables {
  struct Block {
    const HuffmanTable* dc;
    const HuffmanTable* ac;
    int component;
  };
  std::array<Block, kMaxMcuBlocks> blocks;
  int block_count = 0;
};

/// DC predictors by component; they wrap around at 16 bits.
using DcPredictors = std::array<int16_t, 4>;

/// Decodes MCUs until `mcu_count` are done or `at.next` is beyond `safe_end`. Returns how many were, or -1 for a broken
/// block. With run.blocks == nullptr the coefficients are not stored and only DC is followed.
int decode_mcus(const McuTables& tables, BitPosition& at, DcPredictors& dc, int mcu_count, const uint8_t* safe_end,
                const McuRun& run);

}  // namespace penstock::detail
