// The kernels of the JPEG pixel stage in plain C++, as matrix products and loops.
#include <algorithm>

#include "loader/jpeg/pixel_kernels.h"

namespace penstock::detail {
namespace {

/// The weights of the 8 coefficients of a line in each of its samples, times 2^13, as they follow from jidctint.c and
/// jidctred.c. The second half of the samples mirrors the first: odd coefficients change their sign.
constexpr int kBasis8[4][8] = {{8192, 11363, 10703, 9633, 8192, 6437, 4433, 2260},
                               {8192, 9633, 4433, -2259, -8192, -11362, -10704, -6436},
                               {8192, 6437, -4433, -11362, -8192, 2261, 10704, 9633},
                               {8192, 2260, -10703, -6436, 8192, 9633, -4433, -11363}};
/// The same for 4 samples, times 2^14, and for 2 samples, times 2^15.
constexpr int kBasis4[2][8] = {{16384, 20995, 15137, 7373, 0, -4926, -6270, -4176},
                               {16384, 8697, -15137, -17799, 0, 11893, 6270, -1730}};
constexpr int kBasis2[1][8] = {{32768, 29692, 0, -10426, 0, 6967, 0, -5906}};

template <int kSize>
constexpr const int (&basis())[kSize / 2][8] {
  if constexpr (kSize == 8)
    return kBasis8;
  else if constexpr (kSize == 4)
    return kBasis4;
  else
    return kBasis2;
}

/// Sample k of a line: the sum modulo 2^32, with `bias` for rounding, shifted right.
template <int kSize, int kShift>
int transformed(const int16_t (&line)[8], int k, uint32_t bias) {
  const bool is_mirrored = k >= kSize / 2;
  const auto& weight = basis<kSize>()[is_mirrored ? kSize - 1 - k : k];
  uint32_t sum = bias;
  for (int j = 0; j < 8; ++j) {
    const uint32_t product = static_cast<uint32_t>(line[j]) * static_cast<uint32_t>(weight[j]);
    sum += is_mirrored && j % 2 == 1 ? 0 - product : product;
  }
  return static_cast<int32_t>(sum) >> kShift;
}

uint8_t clamped(int level) { return static_cast<uint8_t>(std::clamp(level, 0, 255)); }

template <int kSize>
void idct_block(const int16_t* coefficients, const int16_t* quant, uint8_t* out, ptrdiff_t out_stride) {
  constexpr int kScale = kSize == 8 ? 13 : kSize == 4 ? 14 : 15;  // fractional bits of the basis
  constexpr int kColumnShift = kScale - 2, kRowShift = kScale + 5;
  int16_t lines[kSize][8];
  for (int column = 0; column < 8; ++column) {
    int16_t line[8];
    for (int i = 0; i < 8; ++i) line[i] = static_cast<int16_t>(coefficients[8 * i + column] * quant[8 * i + column]);
    for (int k = 0; k < kSize; ++k)
      lines[k][column] =
          static_cast<int16_t>(transformed<kSize, kColumnShift>(line, k, uint32_t{1} << (kColumnShift - 1)));
  }
  for (auto& line : lines) {
    // Adds the rounding and the level shift of 128, both in units of the first coefficient. The 2 x 2 transform adds
    // them in 32 bits.
    uint32_t bias = 0;
    if constexpr (kSize == 2)
      bias = uint32_t{16 + 128 * 32} << kScale;
    else
      line[0] = static_cast<int16_t>(line[0] + 16 + 128 * 32);
    for (int k = 0; k < kSize; ++k) out[k] = clamped(transformed<kSize, kRowShift>(line, k, bias));
    out += out_stride;
  }
}

template <int kSize>
void idct(const BlockJob& job) {
  for (int i = 0; i < job.count; ++i)
    idct_block<kSize>(job.blocks[i], job.quant, job.out + ptrdiff_t{kSize} * i, job.out_stride);
}

void blend_rows(const uint8_t* nearer, const uint8_t* farther, int bias, int count, uint8_t* out) {
  for (int i = 0; i < count; ++i) out[i] = static_cast<uint8_t>((3 * nearer[i] + farther[i] + bias) >> 2);
}

void double_row(const uint8_t* in, int count, uint8_t* out) {
  for (int i = 0; i < count; ++i) {
    out[2 * i] = static_cast<uint8_t>((3 * in[i] + in[i - 1] + 1) >> 2);
    out[2 * i + 1] = static_cast<uint8_t>((3 * in[i] + in[i + 1] + 2) >> 2);
  }
}

void double_rows(const uint8_t* nearer, const uint8_t* farther, int count, int16_t* sums, uint8_t* out) {
  for (int i = 0; i < count + 2; ++i) sums[i] = static_cast<int16_t>(3 * nearer[i - 1] + farther[i - 1]);
  for (int i = 0; i < count; ++i) {
    out[2 * i] = static_cast<uint8_t>((3 * sums[i + 1] + sums[i] + 8) >> 4);
    out[2 * i + 1] = static_cast<uint8_t>((3 * sums[i + 1] + sums[i + 2] + 7) >> 4);
  }
}

/// As jdcolor.c, whose tables have 16 fractional bits. The factors are 1.402, 1.772, 0.34414 and 0.71414.
void ycc_to_rgb(const uint8_t* y, const uint8_t* cb, const uint8_t* cr, int width, uint8_t* out) {
  for (int i = 0; i < width; ++i, out += 3) {
    const int blue = cb[i] - 128, red = cr[i] - 128;
    out[0] = clamped(y[i] + ((91881 * red + 32768) >> 16));
    out[1] = clamped(y[i] + ((-22554 * blue - 46802 * red + 32768) >> 16));
    out[2] = clamped(y[i] + ((116130 * blue + 32768) >> 16));
  }
}

void interleave(const uint8_t* r, const uint8_t* g, const uint8_t* b, int width, uint8_t* out) {
  for (int i = 0; i < width; ++i, out += 3) {
    out[0] = r[i];
    out[1] = g[i];
    out[2] = b[i];
  }
}

}  // namespace

void idct_1x1(const BlockJob& job) {
  for (int i = 0; i < job.count; ++i) {
    // jidctred.c looks the level up by the lowest 10 bits of the sum, in a table of 1024 entries.
    const int sum = job.blocks[i][0] * job.quant[0] + 4;
    const int level = (((sum >> 3) & 1023) ^ 512) - 512;
    job.out[i] = clamped(level + 128);
  }
}

const PixelKernels kPlainKernels{
    {idct_1x1, idct<2>, idct<4>, idct<8>}, blend_rows, double_row, double_rows, ycc_to_rgb, interleave};

}  // namespace penstock::detail
