// The arithmetic of the JPEG pixel stage, one number at a time: for the plain kernels of the processor and for those of
// a CUDA device, which therefore give the same bits.
#pragma once

#include <cstddef>
#include <cstdint>

namespace penstock::detail {

constexpr uint8_t clamped_level(int level) { return static_cast<uint8_t>(level < 0 ? 0 : level > 255 ? 255 : level); }

/// The weights of the 8 coefficients of a line in its samples, as they follow from jidctint.c and jidctred.c: for 8
/// samples times 2^13, for 4 samples times 2^14, and for 2 samples times 2^15. Only the first half of the samples is
/// listed. The second half mirrors it: odd coefficients change their sign.
template <int kSize>
constexpr int idct_weight(int sample, int coefficient) {
  static_assert(kSize == 2 || kSize == 4 || kSize == 8);
  constexpr int kWeights8[4][8] = {{8192, 11363, 10703, 9633, 8192, 6437, 4433, 2260},
                                   {8192, 9633, 4433, -2259, -8192, -11362, -10704, -6436},
                                   {8192, 6437, -4433, -11362, -8192, 2261, 10704, 9633},
                                   {8192, 2260, -10703, -6436, 8192, 9633, -4433, -11363}};
  constexpr int kWeights4[2][8] = {{16384, 20995, 15137, 7373, 0, -4926, -6270, -4176},
                                   {16384, 8697, -15137, -17799, 0, 11893, 6270, -1730}};
  constexpr int kWeights2[8] = {32768, 29692, 0, -10426, 0, 6967, 0, -5906};
  const bool is_mirrored = sample >= kSize / 2;
  const int row = is_mirrored ? kSize - 1 - sample : sample;
  const int weight = kSize == 8   ? kWeights8[row % 4][coefficient]
                     : kSize == 4 ? kWeights4[row % 2][coefficient]
                                  : kWeights2[coefficient];
  return is_mirrored && coefficient % 2 == 1 ? -weight : weight;
}

/// Sample k of a line: the sum modulo 2^32, with `bias` for rounding, shifted right.
template <int kSize, int kShift>
int idct_sample(const int16_t (&line)[8], int k, uint32_t bias) {
  uint32_t sum = bias;
  for (int j = 0; j < 8; ++j) sum += static_cast<uint32_t>(line[j]) * static_cast<uint32_t>(idct_weight<kSize>(k, j));
  return static_cast<int32_t>(sum) >> kShift;
}

template <int kSize>
constexpr int idct_scale_bits() {
  return kSize == 8 ? 13 : kSize == 4 ? 14 : 15;
}

/// The first pass: dequantises column `column` of a block and transforms it to kSize values, one per line.
template <int kSize>
void idct_column(const int16_t* coefficients, const int16_t* quant, int column, int16_t (*lines)[8]) {
  constexpr int kShift = idct_scale_bits<kSize>() - 2;
  int16_t in[8];
  for (int i = 0; i < 8; ++i) in[i] = static_cast<int16_t>(coefficients[8 * i + column] * quant[8 * i + column]);
  for (int k = 0; k < kSize; ++k)
    lines[k][column] = static_cast<int16_t>(idct_sample<kSize, kShift>(in, k, uint32_t{1} << (kShift - 1)));
}

/// The second pass: transforms a line to kSize samples.
template <int kSize>
void idct_row(const int16_t (&in)[8], uint8_t* out) {
  constexpr int kScale = idct_scale_bits<kSize>();
  int16_t line[8];
  for (int i = 0; i < 8; ++i) line[i] = in[i];
  // Adds the rounding and the level shift of 128, both in units of the first coefficient. The 2 x 2 transform adds them
  // in 32 bits.
  uint32_t bias = 0;
  if constexpr (kSize == 2)
    bias = uint32_t{16 + 128 * 32} << kScale;
  else
    line[0] = static_cast<int16_t>(line[0] + 16 + 128 * 32);
  for (int k = 0; k < kSize; ++k) out[k] = clamped_level(idct_sample<kSize, kScale + 5>(line, k, bias));
}

/// The one sample of a block at scale 1/8. jidctred.c looks the level up by the lowest 10 bits of the sum, in a table
/// of 1024 entries.
inline uint8_t idct_one(int16_t dc, int16_t quant) {
  const int sum = dc * quant + 4;
  return clamped_level((((sum >> 3) & 1023) ^ 512) - 512 + 128);
}

/// The triangle filter of libjpeg's "fancy" upsampling: 3/4 of the nearer value and 1/4 of the farther one.
constexpr int blended(int nearer, int farther, int bias, int shift) { return (3 * nearer + farther + bias) >> shift; }

struct RgbLevels {
  uint8_t red, green, blue;
};

/// As jdcolor.c, whose tables have 16 fractional bits. The factors are 1.402, 1.772, 0.34414 and 0.71414.
constexpr RgbLevels rgb_of_ycc(int y, int cb, int cr) {
  const int blue = cb - 128, red = cr - 128;
  return {clamped_level(y + ((91881 * red + 32768) >> 16)),
          clamped_level(y + ((-22554 * blue - 46802 * red + 32768) >> 16)),
          clamped_level(y + ((116130 * blue + 32768) >> 16))};
}

}  // namespace penstock::detail
