// PixelKernels: the inner loops of the JPEG pixel stage. There is one set per instruction set, and all give the same
// bits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace penstock::detail {

/// The number of bytes that a kernel may read and write after the end of a row, because it works on whole vectors,
/// unused lanes included.
constexpr int kRowSlack = 64;

/// The most blocks that are transformed side by side. Lists of blocks are padded to a multiple of it by repeating the
/// last block.
constexpr int kSideBySide = 4;

/// A row of blocks of one component, and where to write their samples.
struct BlockJob {
  const int16_t* const* blocks = nullptr;  // one pointer per block to its 64 quantised coefficients, 16-byte aligned
  const uint8_t* rows = nullptr;           // one entry per block, as in McuRun
  int count = 0;                           // number of blocks
  const int16_t* quant = nullptr;          // 64 factors, row by row; 16-byte aligned
  uint8_t* out = nullptr;                  // samples; up to kSideBySide - 1 further blocks are written on the right
  ptrdiff_t out_stride = 0;                // in bytes
};

/// Determinism: every set gives the same bytes for every input, also for coefficients outside of any valid range. Sums
/// are modulo 2^32, and what is stored between the two passes is truncated to 16 bits.
struct PixelKernels {
  using Idct = void (*)(const BlockJob& job);
  /// Dequantises and transforms to 1 x 1, 2 x 2, 4 x 4 and 8 x 8 samples per block. The samples are those of libjpeg's
  /// jidctint and jidctred (the accurate integer method) for every coefficient that an 8-bit picture can have.
  std::array<Idct, 4> idct{};
  /// Blends 3/4 of the nearer row and 1/4 of the farther one. `bias` is 1 where the farther row is the one above, and 2
  /// where it is the one below.
  void (*blend_rows)(const uint8_t* nearer, const uint8_t* farther, int bias, int count, uint8_t* out) = nullptr;
  /// Makes 2 * count pixels from `count` samples. Reads in[-1] and in[count] too.
  void (*double_row)(const uint8_t* in, int count, uint8_t* out) = nullptr;
  /// As double_row(), for a row between the rows `nearer` and `farther`. `sums` has room for count + 2 values and 64
  /// bytes more.
  void (*double_rows)(const uint8_t* nearer, const uint8_t* farther, int count, int16_t* sums, uint8_t* out) = nullptr;
  /// Converts three planes to `width` RGB pixels.
  void (*ycc_to_rgb)(const uint8_t* y, const uint8_t* cb, const uint8_t* cr, int width, uint8_t* out) = nullptr;
  void (*interleave)(const uint8_t* r, const uint8_t* g, const uint8_t* b, int width, uint8_t* out) = nullptr;
};

/// The best set for this processor.
const PixelKernels& pixel_kernels();

/// The set in plain C++. It serves processors without a SIMD set, and the other sets are tested against it.
extern const PixelKernels kPlainKernels;
/// Takes one multiplication per block, so that SIMD would gain nothing.
void idct_1x1(const BlockJob& job);

/// The level of all samples of a block that has nothing but its DC (8 x 8 and 4 x 4), with the truncations to 16 bits
/// of the two passes.
constexpr uint8_t dc_level(int16_t dc, int16_t quant) {
  const auto dequantised = static_cast<int16_t>(dc * quant);
  const auto after_columns = static_cast<int16_t>(dequantised * 4);
  const int level = static_cast<int16_t>(after_columns + 16 + 128 * 32) >> 5;
  return static_cast<uint8_t>(level < 0 ? 0 : level > 255 ? 255 : level);
}

}  // namespace penstock::detail
