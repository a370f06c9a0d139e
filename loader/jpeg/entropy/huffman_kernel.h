// The inner loop of Huffman decoding: decodes whole MCUs from bytes from which stuffed zeros have been removed.
#pragma once

#include <array>
#include <cstdint>

#include "loader/jpeg/base/coefficients.h"
#include "loader/jpeg/base/geometry.h"
#include "loader/jpeg/base/huffman_table.h"

namespace penstock::detail {

/// The position of a reader. `buffer` holds the next bits, the first one on top. The first `bit_count` of them (0 ..
/// 63) come from bytes before `next`; the bits after these are the first bits of *next.
struct BitPosition {
  const uint8_t* next = nullptr;
  uint64_t buffer = 0, bit_count = 0;
};

/// The number of bytes 0xFF that must follow the last byte. No code consists of ones alone, so that decoding ends as
/// broken at the first code that begins there. That is at most 31 bits after the last byte, and at most 16 bytes more
/// are loaded.
constexpr int kBitPadding = 32;
/// The most bytes that one MCU takes: each block has at most 64 codes of 16 bits with values of 15 bits.
constexpr int kMaxMcuBytes = kMaxMcuBlocks * 64 * 31 / 8;

/// For each block of an MCU, the tables and the component to decode it with.
struct McuTables {
  struct Block {
    const HuffmanTable* dc;
    const HuffmanTable* ac;
    int component;
  };
  std::array<Block, kMaxMcuBlocks> blocks;
  int block_count = 0;
};

/// One DC predictor per component. They wrap around at 16 bits.
using DcPredictors = std::array<int16_t, 4>;

/// Decodes MCUs until `mcu_count` of them are done or `at.next` is after `safe_end`. Returns the number of decoded
/// MCUs, or -1 for a broken block. With run.blocks == nullptr no coefficients are stored and only the DC predictors are
/// kept up to date.
int decode_mcus(const McuTables& tables, BitPosition& at, DcPredictors& dc, int mcu_count, const uint8_t* safe_end,
                const McuRun& run);

}  // namespace penstock::detail
