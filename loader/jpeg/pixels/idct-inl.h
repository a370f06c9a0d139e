// The 8 x 8 inverse DCT of as many blocks side by side as a vector has 128-bit parts. pixel_kernels.cpp includes this
// file once for each instruction set.
//
// This is libjpeg's jidctint.c (Loeffler, Ligtenberg, Moschytz 1989). Its integer sums are the same in any order, and
// here they are ordered for pmaddwd, which adds the two products of a pair of neighbouring 16-bit lanes. The pass over
// columns pairs the rows (0,4), (2,6), (1,5), (3,7). It stores columns 0-3 in the even lanes and columns 4-7 in the odd
// lanes, which gives the same pairs to the pass over rows, so that only 32-bit lanes are transposed between the passes.
#if defined(PENSTOCK_IDCT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PENSTOCK_IDCT_INL_H
#undef PENSTOCK_IDCT_INL_H
#else
#define PENSTOCK_IDCT_INL_H
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "hwy/highway.h"
#include "loader/jpeg/pixels/pixel_kernels.h"

HWY_BEFORE_NAMESPACE();
namespace penstock::detail::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D16 = hn::ScalableTag<int16_t>;
using D32 = hn::RepartitionToWide<D16>;
using D8 = hn::Repartition<uint8_t, D16>;
using D64 = hn::Repartition<uint64_t, D16>;
using V16 = hn::Vec<D16>;
using V32 = hn::Vec<D32>;
using V8 = hn::Vec<D8>;
constexpr int kParts = static_cast<int>(hn::MaxLanes(D16())) / 8;  // number of blocks side by side

/// The same pair of weights in every pair of lanes.
HWY_INLINE V16 weights(int even, int odd) {
  return hn::BitCast(D16(), hn::Set(D32(), static_cast<int32_t>(static_cast<uint32_t>(odd) << 16 | (even & 0xFFFF))));
}

/// For each pair of lanes: the product of the even lanes plus the product of the odd lanes.
HWY_INLINE V32 pair_sum(V16 a, V16 b) {
  V32 unused = hn::Zero(D32());
  return hn::ReorderWidenMulAccumulate(D32(), a, b, hn::Zero(D32()), unused);
}

/// Converts to u8 with saturation. Each 128-bit part of the result has the 8 lanes of `a`, then the 8 lanes of `b`.
HWY_INLINE V8 packed(V16 a, V16 b) {
#if HWY_TARGET <= HWY_AVX3
  return V8{_mm512_packus_epi16(a.raw, b.raw)};
#elif HWY_TARGET == HWY_AVX2
  return V8{_mm256_packus_epi16(a.raw, b.raw)};
#else
  return V8{_mm_packus_epi16(a.raw, b.raw)};
#endif
}

/// Converts 32-bit lanes to 16 bits: bits kShift .. kShift + 15 of `even` go to the even lanes, those of `odd` to the
/// odd lanes.
template <int kShift>
HWY_INLINE V16 merged(V32 even, V32 odd) {
  const D16 d;
  const V16 high = kShift < 16 ? hn::BitCast(d, hn::ShiftLeft<(16 - kShift) & 15>(odd)) : hn::BitCast(d, odd);
  return hn::OddEven(high, hn::BitCast(d, hn::ShiftRight<kShift>(even)));
}

/// Row `row` of the coefficients of kParts blocks, dequantised.
HWY_INLINE V16 dequantised(const int16_t* const* blocks, const int16_t* quant, int row) {
  const D16 d;
  const hn::Full128<int16_t> d128;
  const auto line = [&](int i) HWY_ATTR { return hn::Load(d128, blocks[i] + 8 * row); };
  const V16 factor = hn::LoadDup128(d, quant + 8 * row);
#if HWY_TARGET <= HWY_AVX3
  const hn::Half<D16> half;
  return hn::Mul(hn::Combine(d, hn::Combine(half, line(3), line(2)), hn::Combine(half, line(1), line(0))), factor);
#elif HWY_TARGET == HWY_AVX2
  return hn::Mul(hn::Combine(d, line(1), line(0)), factor);
#else
  return hn::Mul(line(0), factor);
#endif
}

/// Transposes 4 x 4 lanes of 32 bits within each 128-bit part.
HWY_INLINE void transpose_4x4(V16 (&v)[4]) {
  const D16 d;
  const D32 d32;
  const D64 d64;
  const auto lower = [&](V16 a, V16 b) HWY_ATTR {
    return hn::BitCast(d64, hn::InterleaveLower(d32, hn::BitCast(d32, a), hn::BitCast(d32, b)));
  };
  const auto upper = [&](V16 a, V16 b) HWY_ATTR {
    return hn::BitCast(d64, hn::InterleaveUpper(d32, hn::BitCast(d32, a), hn::BitCast(d32, b)));
  };
  const auto ab_lower = lower(v[0], v[1]), ab_upper = upper(v[0], v[1]);
  const auto cd_lower = lower(v[2], v[3]), cd_upper = upper(v[2], v[3]);
  v[0] = hn::BitCast(d, hn::InterleaveLower(d64, ab_lower, cd_lower));
  v[1] = hn::BitCast(d, hn::InterleaveUpper(d64, ab_lower, cd_lower));
  v[2] = hn::BitCast(d, hn::InterleaveLower(d64, ab_upper, cd_upper));
  v[3] = hn::BitCast(d, hn::InterleaveUpper(d64, ab_upper, cd_upper));
}

/// The butterflies at the end of a pass, which give samples k and 7 - k.
HWY_INLINE void add_and_subtract(const V32 (&even)[4], const V32 (&odd)[4], V32 (&out)[8]) {
  for (int k = 0; k < 4; ++k) {
    out[k] = hn::Add(even[k], odd[k]);
    out[7 - k] = hn::Sub(even[k], odd[k]);
  }
}

/// One pass over lines whose coefficients are in the pairs (0,4), (1,5), (2,6), (3,7). The result is scaled by 2^13.
HWY_INLINE void transform(const V16 (&pair)[4], V32 bias, V32 (&out)[8]) {
  const V32 sum = hn::Add(pair_sum(pair[0], weights(8192, 8192)), bias);
  const V32 difference = hn::Add(pair_sum(pair[0], weights(8192, -8192)), bias);
  const V32 outer = pair_sum(pair[2], weights(10703, 4433)), inner = pair_sum(pair[2], weights(4433, -10704));
  const V32 even[4] = {hn::Add(sum, outer), hn::Add(difference, inner), hn::Sub(difference, inner),
                       hn::Sub(sum, outer)};
  const auto odd_sum = [&](V16 weights_15, V16 weights_37)
                           HWY_ATTR { return hn::Add(pair_sum(pair[1], weights_15), pair_sum(pair[3], weights_37)); };
  const V32 odd[4] = {
      odd_sum(weights(11363, 6437), weights(9633, 2260)), odd_sum(weights(9633, -11362), weights(-2259, -6436)),
      odd_sum(weights(6437, 2261), weights(-11362, 9633)), odd_sum(weights(2260, 9633), weights(-6436, -11363))};
  add_and_subtract(even, odd, out);
}

/// The same pass where coefficients 4 .. 7 are 0: with the pairs (0,2) and (1,3) it takes half of the products.
HWY_INLINE void transform_half(V16 even_pair, V16 odd_pair, V32 bias, V32 (&out)[8]) {
  const auto even_sum = [&](int weight) HWY_ATTR { return hn::Add(pair_sum(even_pair, weights(8192, weight)), bias); };
  const V32 even[4] = {even_sum(10703), even_sum(4433), even_sum(-4433), even_sum(-10703)};
  const V32 odd[4] = {pair_sum(odd_pair, weights(11363, 9633)), pair_sum(odd_pair, weights(9633, -2259)),
                      pair_sum(odd_pair, weights(6437, -11362)), pair_sum(odd_pair, weights(2260, -6436))};
  add_and_subtract(even, odd, out);
}

/// The pass over columns. It gives rows of samples, with columns 0-3 in the even lanes and columns 4-7 in the odd
/// lanes.
template <bool kHalf>
HWY_INLINE void column_pass(const int16_t* const* blocks, const int16_t* quant, V16 (&rows)[8]) {
  const D16 d;
  const V32 rounding = hn::Set(D32(), 1 << 10);
  V32 left[8], right[8];
  V16 x[8];
  for (int row = 0; row < (kHalf ? 4 : 8); ++row) x[row] = dequantised(blocks, quant, row);
  if constexpr (kHalf) {
    transform_half(hn::InterleaveLower(d, x[0], x[2]), hn::InterleaveLower(d, x[1], x[3]), rounding, left);
    transform_half(hn::InterleaveUpper(d, x[0], x[2]), hn::InterleaveUpper(d, x[1], x[3]), rounding, right);
  } else {
    V16 lower[4], upper[4];
    for (int i = 0; i < 4; ++i) {
      lower[i] = hn::InterleaveLower(d, x[i], x[i + 4]);
      upper[i] = hn::InterleaveUpper(d, x[i], x[i + 4]);
    }
    transform(lower, rounding, left);
    transform(upper, rounding, right);
  }
  for (int row = 0; row < 8; ++row) rows[row] = merged<11>(left[row], right[row]);
}

/// The pass over four rows. It gives bytes: two rows of 8 samples in each 128-bit part of `out[0]` and of `out[1]`.
HWY_INLINE void row_pass(V16 (&rows)[4], V8 (&out)[2]) {
  const D32 d32;
  alignas(16) static constexpr uint8_t kByRow[16] = {0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15};
  transpose_4x4(rows);
  // Adds the rounding and the level shift of 128, both in units of the first coefficient.
  rows[0] = hn::Add(rows[0], weights(16 + 128 * 32, 0));
  V32 sample[8];
  transform(rows, hn::Zero(d32), sample);
  // Each 32-bit lane belongs to one row and holds two neighbouring samples, with 2 fractional bits before the shift.
  V16 pair[4];
  for (int i = 0; i < 4; ++i) pair[i] = hn::ShiftRight<2>(merged<16>(sample[2 * i], sample[2 * i + 1]));
  const auto order = hn::LoadDup128(D8(), kByRow);
  const auto left = hn::BitCast(d32, hn::TableLookupBytes(packed(pair[0], pair[1]), order));
  const auto right = hn::BitCast(d32, hn::TableLookupBytes(packed(pair[2], pair[3]), order));
  out[0] = hn::BitCast(D8(), hn::InterleaveLower(d32, left, right));
  out[1] = hn::BitCast(D8(), hn::InterleaveUpper(d32, left, right));
}

/// Stores two rows of kParts blocks.
HWY_INLINE void store_rows(V8 rows, uint8_t* out, ptrdiff_t stride) {
#if HWY_TARGET <= HWY_AVX3
  alignas(64) static constexpr uint64_t kByRow[8] = {0, 2, 4, 6, 1, 3, 5, 7};
  const auto order = hn::SetTableIndices(D64(), kByRow);
  rows = hn::BitCast(D8(), hn::TableLookupLanes(hn::BitCast(D64(), rows), order));
#elif HWY_TARGET == HWY_AVX2
  rows = V8{_mm256_permute4x64_epi64(rows.raw, 0xD8)};
#endif
  const hn::Half<D8> half;
  hn::StoreU(hn::LowerHalf(half, rows), half, out);
  hn::StoreU(hn::UpperHalf(half, rows), half, out + stride);
}

template <bool kHalf>
HWY_NOINLINE void transform_blocks(const int16_t* const* blocks, const int16_t* quant, uint8_t* out, ptrdiff_t stride) {
  V16 rows[8];
  column_pass<kHalf>(blocks, quant, rows);
  for (int half = 0; half < 2; ++half) {
    V16 four[4] = {rows[4 * half], rows[4 * half + 1], rows[4 * half + 2], rows[4 * half + 3]};
    V8 samples[2];
    row_pass(four, samples);
    store_rows(samples[0], out + 4 * half * stride, stride);
    store_rows(samples[1], out + (4 * half + 2) * stride, stride);
  }
}

/// Fills blocks that have nothing but a DC. Samples are stored from registers. If the rows were assembled in memory
/// first, loading them again would have to wait for the stores.
template <int kSize>
HWY_INLINE void fill_blocks(const int16_t* const* blocks, const int16_t* quant, uint8_t* out, ptrdiff_t stride) {
  for (int i = 0; i < kParts; ++i) {
    const uint64_t levels = dc_level(blocks[i][0], quant[0]) * uint64_t{0x0101010101010101};
    for (int row = 0; row < kSize; ++row) std::memcpy(out + row * stride + kSize * i, &levels, kSize);
  }
}

/// The numbers of used rows of kParts blocks, one byte per block.
HWY_INLINE uint32_t used_rows(const uint8_t* rows) {
  uint32_t used = 0;
  std::memcpy(&used, rows, kParts);
  return used;
}

/// Whether no byte is above 4. Adding 123 to a byte sets its top bit from 5 on, since 5 + 123 is 128.
HWY_INLINE bool are_upper_halves(uint32_t used) { return ((used + 0x7B7B7B7Bu) & 0x80808080u) == 0; }

void idct_8x8(const BlockJob& job) {
  for (int first = 0; first < job.count; first += kParts) {
    const int16_t* const* blocks = job.blocks + first;
    uint8_t* out = job.out + ptrdiff_t{8} * first;
    const uint32_t used = used_rows(job.rows + first);
    if (used == 0) {
      fill_blocks<8>(blocks, job.quant, out, job.out_stride);
    } else if (are_upper_halves(used)) {
      transform_blocks<true>(blocks, job.quant, out, job.out_stride);
    } else {
      transform_blocks<false>(blocks, job.quant, out, job.out_stride);
    }
  }
}

}  // namespace penstock::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // PENSTOCK_IDCT_INL_H
