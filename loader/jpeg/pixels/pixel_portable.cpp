// The kernels of the JPEG pixel stage in plain C++, as matrix products and loops.
#include "loader/jpeg/pixels/pixel_kernels.h"
#include "loader/jpeg/pixels/pixel_math.h"

namespace penstock::detail {
namespace {

template <int kSize>
void idct_block(const int16_t* coefficients, const int16_t* quant, uint8_t* out, ptrdiff_t out_stride) {
  int16_t lines[kSize][8];
  for (int column = 0; column < 8; ++column) idct_column<kSize>(coefficients, quant, column, lines);
  for (const auto& line : lines) {
    idct_row<kSize>(line, out);
    out += out_stride;
  }
}

template <int kSize>
void idct(const BlockJob& job) {
  for (int i = 0; i < job.count; ++i)
    idct_block<kSize>(job.blocks[i], job.quant, job.out + ptrdiff_t{kSize} * i, job.out_stride);
}

void blend_rows(const uint8_t* nearer, const uint8_t* farther, int bias, int count, uint8_t* out) {
  for (int i = 0; i < count; ++i) out[i] = static_cast<uint8_t>(blended(nearer[i], farther[i], bias, 2));
}

void double_row(const uint8_t* in, int count, uint8_t* out) {
  for (int i = 0; i < count; ++i) {
    out[2 * i] = static_cast<uint8_t>(blended(in[i], in[i - 1], 1, 2));
    out[2 * i + 1] = static_cast<uint8_t>(blended(in[i], in[i + 1], 2, 2));
  }
}

void double_rows(const uint8_t* nearer, const uint8_t* farther, int count, int16_t* sums, uint8_t* out) {
  for (int i = 0; i < count + 2; ++i) sums[i] = static_cast<int16_t>(3 * nearer[i - 1] + farther[i - 1]);
  for (int i = 0; i < count; ++i) {
    out[2 * i] = static_cast<uint8_t>(blended(sums[i + 1], sums[i], 8, 4));
    out[2 * i + 1] = static_cast<uint8_t>(blended(sums[i + 1], sums[i + 2], 7, 4));
  }
}

void ycc_to_rgb(const uint8_t* y, const uint8_t* cb, const uint8_t* cr, int width, uint8_t* out) {
  for (int i = 0; i < width; ++i, out += 3) {
    const RgbLevels levels = rgb_of_ycc(y[i], cb[i], cr[i]);
    out[0] = levels.red;
    out[1] = levels.green;
    out[2] = levels.blue;
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
  for (int i = 0; i < job.count; ++i) job.out[i] = idct_one(job.blocks[i][0], job.quant[0]);
}

const PixelKernels kPlainKernels{
    {idct_1x1, idct<2>, idct<4>, idct<8>}, blend_rows, double_row, double_rows, ycc_to_rgb, interleave};

}  // namespace penstock::detail
