// PixelKernels: the inner loops of the JPEG pixel stage, one set for each instruction set, all with the same bits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace penstock::detail {

/// What a kernel may read and write beyond a row's end, bytes: a whole vector is worked on, garbage lanes too.
constexpr int kRowSlack = 64;

/// A row of blocks of one component, and where their samples go.
struct BlockJob {
  const int16_t* coefficients = nullptr;  // quantised, 64 a block
  const uint8_t* rows = nullptr;          // a block, as McuRun has it
  const uint16_t* index = nullptr;        // of the i-th block from the left, in the two above
  int count = 0;                          // blocks
  const int16_t* quant = nullptr;         // 64, row by row; 16-byte aligned
  uint8_t* out = nullptr;                 // samples; up to 3 blocks more are written on the right
  ptrdiff_t out_stride = 0;               // bytes
};

/// Determinism: every set gives the same bytes for every input, coefficients out of any valid range included: sums are
/// modulo 2^32, what is stored between the two passes is cut to 16 bits.
struct PixelKernels {
  using Idct = void (*)(const BlockJob& job);
  /// Dequantises and transforms to 1 x 1, 2 x 2, 4 x 4, 8 x 8 samples a block: libjpeg's jidctint and jidctred (the
  /// accurate integer method), which is exact here for every coefficient that an 8-bit picture can have.
  std::array<Idct, 4> idct{};
  /// 3/4 of the nearer row and 1/4 of the farther one; bias 1 where that is the row above, 2 where it is the row below.
  void (*blend_rows)(const uint8_t* nearer, const uint8_t* farther, int bias, int count, uint8_t* out) = nullptr;
  /// `count` samples to twice as many pixels. in[-1] and in[count] are looked at.
  void (*double_row)(const uint8_t* in, int count, uint8_t* out) = nullptr;
  /// As double_row(), of a row between two; `sums` holds count + 2 values and 64 bytes more.
  void (*double_rows)(const uint8_t* nearer, const uint8_t* farther, int count, int16_t* sums, uint8_t* out) = nullptr;
  /// Three planes to `width` pixels.
  void (*ycc_to_rgb)(const uint8_t* y, const uint8_t* cb, const uint8_t* cr, int width, uint8_t* out) = nullptr;
  void (*interleave)(const uint8_t* r, const uint8_t* g, const uint8_t* b, int width, uint8_t* out) = nullptr;
};

/// The best set that this processor has.
const PixelKernels& pixel_kernels();

/// Plain C++: for processors without a SIMD set, and what the others are tested against.
extern const PixelKernels kPlainKernels;
/// One multiplication a block: there is nothing to gain from SIMD.
void idct_1x1(const BlockJob& job);

/// The level of a block's samples when only its DC is there, with the cuts to 16 bits of the two passes (8 x 8, 4 x 4).
constexpr uint8_t dc_level(int16_t dc, int16_t quant) {
  const auto dequantised = static_cast<int16_t>(dc * quant);
  const auto after_columns = static_cast<int16_t>(dequantised * 4);
  const int level = static_cast<int16_t>(after_columns + 16 + 128 * 32) >> 5;
  return static_cast<uint8_t>(level < 0 ? 0 : level > 255 ? 255 : level);
}

}  // namespace penstock::detail
