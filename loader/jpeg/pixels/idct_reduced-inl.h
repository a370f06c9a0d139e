// The inverse DCTs that give 4 x 4 and 2 x 2 samples per block, for blocks side by side as in idct-inl.h. They are
// libjpeg's jidctred.c with its integer sums in another order. pixel_kernels.cpp includes this file once for each
// instruction set.
#if defined(PENSTOCK_IDCT_REDUCED_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PENSTOCK_IDCT_REDUCED_INL_H
#undef PENSTOCK_IDCT_REDUCED_INL_H
#else
#define PENSTOCK_IDCT_REDUCED_INL_H
#endif

#include "loader/jpeg/pixels/idct-inl.h"

HWY_BEFORE_NAMESPACE();
namespace penstock::detail::HWY_NAMESPACE {

/// One pass of the 4-point transform, over the pairs (0,4), (1,5), (2,6), (3,7). The result is scaled by 2^14.
/// Coefficient 4 has weight 0.
HWY_INLINE void transform_4(const V16 (&pair)[4], V32 bias, V32 (&out)[4]) {
  const V32 constant = hn::Add(pair_sum(pair[0], weights(16384, 0)), bias);
  const V32 slope = pair_sum(pair[2], weights(15137, -6270));
  const V32 outer = hn::Add(pair_sum(pair[1], weights(20995, -4926)), pair_sum(pair[3], weights(7373, -4176)));
  const V32 inner = hn::Add(pair_sum(pair[1], weights(8697, 11893)), pair_sum(pair[3], weights(-17799, -1730)));
  const V32 sum = hn::Add(constant, slope), difference = hn::Sub(constant, slope);
  out[0] = hn::Add(sum, outer);
  out[1] = hn::Add(difference, inner);
  out[2] = hn::Sub(difference, inner);
  out[3] = hn::Sub(sum, outer);
}

/// The same pass where coefficients 4 .. 7 are 0, over the pairs (0,2) and (1,3).
HWY_INLINE void transform_4_half(V16 even_pair, V16 odd_pair, V32 bias, V32 (&out)[4]) {
  const V32 sum = hn::Add(pair_sum(even_pair, weights(16384, 15137)), bias);
  const V32 difference = hn::Add(pair_sum(even_pair, weights(16384, -15137)), bias);
  const V32 outer = pair_sum(odd_pair, weights(20995, 7373)), inner = pair_sum(odd_pair, weights(8697, -17799));
  out[0] = hn::Add(sum, outer);
  out[1] = hn::Add(difference, inner);
  out[2] = hn::Sub(difference, inner);
  out[3] = hn::Sub(sum, outer);
}

/// The pass over columns. It gives four rows of samples, with columns 0-3 in the even lanes and columns 4-7 in the odd
/// lanes.
template <bool kHalf>
HWY_INLINE void column_pass_4(const int16_t* const* blocks, const int16_t* quant, V16 (&rows)[4]) {
  const D16 d;
  const V32 rounding = hn::Set(D32(), 1 << 11);
  V32 left[4], right[4];
  V16 x[8];
  for (int row = 0; row < (kHalf ? 4 : 8); ++row) x[row] = row == 4 ? hn::Zero(d) : dequantised(blocks, quant, row);
  if constexpr (kHalf) {
    transform_4_half(hn::InterleaveLower(d, x[0], x[2]), hn::InterleaveLower(d, x[1], x[3]), rounding, left);
    transform_4_half(hn::InterleaveUpper(d, x[0], x[2]), hn::InterleaveUpper(d, x[1], x[3]), rounding, right);
  } else {
    V16 lower[4], upper[4];
    for (int i = 0; i < 4; ++i) {
      lower[i] = hn::InterleaveLower(d, x[i], x[i + 4]);
      upper[i] = hn::InterleaveUpper(d, x[i], x[i + 4]);
    }
    transform_4(lower, rounding, left);
    transform_4(upper, rounding, right);
  }
  for (int row = 0; row < 4; ++row) rows[row] = merged<12>(left[row], right[row]);
}

/// Stores four rows of kParts blocks. Each 128-bit part is one block, and each of its 32-bit lanes is one row.
HWY_INLINE void store_rows_4(V8 rows, uint8_t* out, ptrdiff_t stride) {
  [[maybe_unused]] const D32 d32;
#if HWY_TARGET <= HWY_AVX3
  alignas(64) static constexpr int32_t kByRow[16] = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
  rows = hn::BitCast(D8(), hn::TableLookupLanes(hn::BitCast(d32, rows), hn::SetTableIndices(d32, kByRow)));
#elif HWY_TARGET == HWY_AVX2
  alignas(32) static constexpr int32_t kByRow[8] = {0, 4, 1, 5, 2, 6, 3, 7};
  rows = hn::BitCast(D8(), hn::TableLookupLanes(hn::BitCast(d32, rows), hn::SetTableIndices(d32, kByRow)));
#endif
  alignas(64) uint8_t lines[16 * kParts];
  hn::Store(rows, D8(), lines);
  for (int row = 0; row < 4; ++row) std::memcpy(out + row * stride, lines + 4 * kParts * row, 4 * kParts);
}

template <bool kHalf>
HWY_NOINLINE void transform_blocks_4(const int16_t* const* blocks, const int16_t* quant, uint8_t* out,
                                     ptrdiff_t stride) {
  alignas(16) static constexpr uint8_t kByRow[16] = {0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15};
  V16 rows[4];
  column_pass_4<kHalf>(blocks, quant, rows);
  transpose_4x4(rows);
  rows[0] = hn::Add(rows[0], weights(16 + 128 * 32, 0));
  V32 sample[4];
  transform_4(rows, hn::Zero(D32()), sample);
  const V16 left = hn::ShiftRight<3>(merged<16>(sample[0], sample[1]));
  const V16 right = hn::ShiftRight<3>(merged<16>(sample[2], sample[3]));
  store_rows_4(hn::TableLookupBytes(packed(left, right), hn::LoadDup128(D8(), kByRow)), out, stride);
}

void idct_4x4(const BlockJob& job) {
  for (int first = 0; first < job.count; first += kParts) {
    const int16_t* const* blocks = job.blocks + first;
    uint8_t* out = job.out + ptrdiff_t{4} * first;
    const uint32_t used = used_rows(job.rows + first);
    if (used == 0) {
      fill_blocks<4>(blocks, job.quant, out, job.out_stride);
    } else if (are_upper_halves(used)) {
      transform_blocks_4<true>(blocks, job.quant, out, job.out_stride);
    } else {
      transform_blocks_4<false>(blocks, job.quant, out, job.out_stride);
    }
  }
}

/// The 2-point transform, scaled by 2^15. It has weights for coefficient 0, for 1 and 5, and for 3 and 7. The weight of
/// coefficient 0 would be 32768, which does not fit 16 bits; it is multiplied by -32768 and then subtracted.
HWY_NOINLINE void transform_blocks_2(const int16_t* const* blocks, const int16_t* quant, uint8_t* out,
                                     ptrdiff_t stride) {
  const D16 d;
  const D32 d32;
  const V32 rounding = hn::Set(d32, 1 << 12);
  const V16 zero = hn::Zero(d);
  V16 x[8];
  for (const int row : {0, 1, 3, 5, 7}) x[row] = dequantised(blocks, quant, row);
  const auto column_pass = [&](V16 x0, V16 x15, V16 x37, V32& first, V32& second) HWY_ATTR {
    const V32 constant = hn::Sub(rounding, pair_sum(x0, weights(-32768, 0)));
    const V32 odd = hn::Add(pair_sum(x15, weights(29692, 6967)), pair_sum(x37, weights(-10426, -5906)));
    first = hn::Add(constant, odd);
    second = hn::Sub(constant, odd);
  };
  V32 left[2], right[2];
  column_pass(hn::InterleaveLower(d, x[0], zero), hn::InterleaveLower(d, x[1], x[5]),
              hn::InterleaveLower(d, x[3], x[7]), left[0], left[1]);
  column_pass(hn::InterleaveUpper(d, x[0], zero), hn::InterleaveUpper(d, x[1], x[5]),
              hn::InterleaveUpper(d, x[3], x[7]), right[0], right[1]);
  // The 32-bit lanes of `lower` are columns (0,4) of both rows, then (1,5) of both rows; those of `upper` are (2,6),
  // then (3,7).
  const V32 row0 = hn::BitCast(d32, merged<13>(left[0], right[0]));
  const V32 row1 = hn::BitCast(d32, merged<13>(left[1], right[1]));
  alignas(16) static constexpr int16_t kLower[8] = {-32768, 0, -32768, 0, 29692, 6967, 29692, 6967};
  alignas(16) static constexpr int16_t kUpper[8] = {0, 0, 0, 0, -10426, -5906, -10426, -5906};
  const V16 lower = hn::BitCast(d, hn::InterleaveLower(d32, row0, row1));
  const V16 upper = hn::BitCast(d, hn::InterleaveUpper(d32, row0, row1));
  const V32 sums = hn::Add(pair_sum(lower, hn::LoadDup128(d, kLower)), pair_sum(upper, hn::LoadDup128(d, kUpper)));
  // Moved to lanes 0 and 1, which in `sums` hold the constants (subtracted below).
  const V32 odd = hn::Shuffle1032(sums);
  const V32 bias = hn::Set(d32, (16 + 128 * 32) << 15);
  const V32 constant = hn::Sub(bias, sums);
  // Lanes 0 and 1 hold one row each: its left sample in the even 16 bits, and its right sample in the odd 16 bits.
  const V16 samples = hn::ShiftRight<4>(merged<16>(hn::Add(constant, odd), hn::Sub(constant, odd)));
  alignas(64) uint8_t bytes[16 * kParts];
  hn::Store(packed(samples, samples), D8(), bytes);
  for (int i = 0; i < kParts; ++i)
    for (int row = 0; row < 2; ++row) std::memcpy(out + 2 * i + row * stride, bytes + 16 * i + 2 * row, 2);
}

void idct_2x2(const BlockJob& job) {
  for (int first = 0; first < job.count; first += kParts)
    transform_blocks_2(job.blocks + first, job.quant, job.out + ptrdiff_t{2} * first, job.out_stride);
}

}  // namespace penstock::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // PENSTOCK_IDCT_REDUCED_INL_H
