// filtered_rows(): the antialiasing triangle along the axes. Included once for each instruction set by render_rows.cpp.
//
// Integers throughout, so the bits are the same whatever the order of the sums. An output row mixes its picture rows
// into one line of i16 levels * 2^7, rounded once; an output pixel then sums pairs of neighbours of that line, two taps
// of four channels an instruction (pmaddwd; the fourth is nobody's), in i32 at 2^21 to a level. 128 * 255 * 2^14 <
// 2^29: no sum overflows.
#if defined(PENSTOCK_RENDER_FILTERED_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PENSTOCK_RENDER_FILTERED_INL_H
#undef PENSTOCK_RENDER_FILTERED_INL_H
#else
#define PENSTOCK_RENDER_FILTERED_INL_H
#endif

#include "augment/detail/render_lanes-inl.h"
#include "augment/detail/sampling.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace penstock::detail::HWY_NAMESPACE {

constexpr int kLineBits = 7;  // a level of the mixed line is 2^7
constexpr int kMixedShift = kWeightBits - kLineBits;
constexpr int kHalfOfMixed = 1 << (kMixedShift - 1);
/// The picture rows of one output row.
struct RowTaps {
  const uint8_t* first;  // the first tap's row, at the line's first byte
  const uint8_t* last;   // the last row that may be read
  ptrdiff_t row_stride;
  const uint32_t* pairs;  // of weights, pair_stride apart
  ptrdiff_t pair_stride;
  int pair_count;
};

HWY_INLINE V to_levels(VI sum) {
  return hn::Mul(hn::ConvertTo(D(), sum), hn::Set(D(), 1.f / (1 << (kLineBits + kWeightBits))));
}

#if HWY_TARGET == HWY_SCALAR  // before SSSE3: one lane

HWY_INLINE int32_t weight_of(const uint32_t* pairs, ptrdiff_t pair_stride, int tap) {
  return static_cast<int32_t>(pairs[tap / 2 * pair_stride] >> (tap % 2 * 16) & 0xFFFF);
}

/// The first `count` bytes of the rows, mixed, as levels * 2^7.
HWY_NOINLINE void mix_rows(const RowTaps& taps, int count, int16_t* line) {
  for (int i = 0; i < count; ++i) {
    int32_t sum = kHalfOfMixed;
    const uint8_t* from = taps.first;
    for (int tap = 0; tap < 2 * taps.pair_count; ++tap, from += taps.row_stride)
      sum += weight_of(taps.pairs, taps.pair_stride, tap) * std::min(from, taps.last)[i];
    line[i] = static_cast<int16_t>(sum >> kMixedShift);
  }
}

/// kLanes output pixels. `offset` and `pairs` are the first one's.
template <int kChannels>
HWY_INLINE Levels<kChannels> filtered(const int16_t* line, const int32_t* offset, const uint32_t* pairs,
                                      const Taps& taps) {
  int32_t sum[3] = {};
  for (int tap = 0; tap < 2 * taps.pair_count; ++tap)
    for (int i = 0; i < kChannels; ++i)
      sum[i] += weight_of(pairs, taps.pair_stride, tap) * line[offset[0] + tap * kChannels + i];
  Levels<kChannels> levels;
  for (int i = 0; i < kChannels; ++i) levels.channel[i] = to_levels(hn::Set(DI(), sum[i]));
  return levels;
}

#else

using D16 = hn::Repartition<int16_t, DI>;
using DHalf8 = hn::Rebind<uint8_t, D16>;
using V16 = hn::Vec<D16>;
constexpr int kLanes16 = 2 * kLanes;

HWY_INLINE VI add_pairs(V16 a, V16 b, VI sum) {
  VI unused = sum;  // x86 has one pmaddwd, whose lanes are in order
  return hn::ReorderWidenMulAccumulate(DI(), a, b, sum, unused);
}

HWY_INLINE V16 load_16(const uint8_t* from, int count) {
  if (count == kLanes16) return hn::PromoteTo(D16(), hn::LoadU(DHalf8(), from));
  HWY_ALIGN uint8_t part[kLanes16] = {};
  std::memcpy(part, from, static_cast<size_t>(count));
  return hn::PromoteTo(D16(), hn::Load(DHalf8(), part));
}

/// `count` bytes at `offset` of each row, as levels * 2^7.
HWY_INLINE V16 mixed(const RowTaps& taps, int offset, int count) {
  const D16 d16;
  VI low = hn::Set(DI(), kHalfOfMixed), high = low;
  const uint8_t* upper = taps.first;
  for (int p = 0; p < taps.pair_count; ++p, upper += 2 * taps.row_stride) {
    // A pair may end beyond the rows, with weight 0.
    const uint8_t* lower = std::min(upper + taps.row_stride, taps.last);
    const V16 a = load_16(std::min(upper, taps.last) + offset, count), b = load_16(lower + offset, count);
    const V16 weights = hn::BitCast(d16, hn::Set(DU(), taps.pairs[p * taps.pair_stride]));
    low = add_pairs(hn::InterleaveLower(d16, a, b), weights, low);
    high = add_pairs(hn::InterleaveUpper(d16, a, b), weights, high);
  }
  return hn::ReorderDemote2To(d16, hn::ShiftRight<kMixedShift>(low), hn::ShiftRight<kMixedShift>(high));
}

HWY_NOINLINE void mix_rows(const RowTaps& taps, int count, int16_t* line) {
  if (count < kLanes16) return hn::StoreU(mixed(taps, 0, count), D16(), line);
  int i = 0;
  for (; i + kLanes16 <= count; i += kLanes16) hn::StoreU(mixed(taps, i, kLanes16), D16(), line + i);
  if (i < count) hn::StoreU(mixed(taps, count - kLanes16, kLanes16), D16(), line + count - kLanes16);
}

/// Eight i16 at each of line + offset[0], offset[4], ...: one block a fourth of the lanes.
HWY_INLINE V16 load_blocks(const int16_t* line, const int32_t* offset) {
  const hn::CappedTag<int16_t, 8> d8;
#if HWY_MAX_BYTES == 16
  return hn::LoadU(d8, line + offset[0]);
#elif HWY_MAX_BYTES == 32
  return hn::Combine(D16(), hn::LoadU(d8, line + offset[4]), hn::LoadU(d8, line + offset[0]));
#else
  const hn::CappedTag<int16_t, 16> d16;
  const auto low = hn::Combine(d16, hn::LoadU(d8, line + offset[4]), hn::LoadU(d8, line + offset[0]));
  const auto high = hn::Combine(d16, hn::LoadU(d8, line + offset[12]), hn::LoadU(d8, line + offset[8]));
  return hn::Combine(D16(), high, low);
#endif
}

/// kLanes output pixels. `offset` and `pairs` are the first one's.
template <int kChannels>
HWY_INLINE Levels<kChannels> filtered(const int16_t* line, const int32_t* offset, const uint32_t* pairs,
                                      const Taps& taps) {
  const DI di;
  const D16 d16;
  if constexpr (kChannels == 1) {
    const VI at = hn::ShiftLeft<1>(hn::LoadU(di, offset));  // bytes
    VI sum = hn::Zero(di);
    for (int p = 0; p < taps.pair_count; ++p) {
      const VI two = hn::GatherOffset(di, reinterpret_cast<const int32_t*>(line + 2 * p), at);
      sum = add_pairs(hn::BitCast(d16, two), hn::BitCast(d16, hn::LoadU(DU(), pairs + p * taps.pair_stride)), sum);
    }
    return {{to_levels(sum)}};
  } else {
    // R0 G0 B0 R1 G1 B1 .. to R0 R1 G0 G1 B0 B1 and two of no meaning.
    alignas(16) static constexpr uint8_t kPairs[16] = {0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11, 4, 5, 10, 11};
    const hn::Repartition<uint8_t, DI> d8;
    const auto order = hn::LoadDup128(d8, kPairs);
    VI sum[4] = {hn::Zero(di), hn::Zero(di), hn::Zero(di), hn::Zero(di)};
    for (int p = 0; p < taps.pair_count; ++p) {
      const VU weights = hn::LoadU(DU(), pairs + p * taps.pair_stride);
      const int16_t* at = line + 6 * p;
      // sum[j] has in block b output pixel 4 * b + j, so that the transposition below stays inside of the blocks.
      const auto add = [&](V16 pixels, VU weight, VI& to) HWY_ATTR {
        const auto in_pairs = hn::TableLookupBytes(hn::BitCast(d8, pixels), order);
        to = add_pairs(hn::BitCast(d16, in_pairs), hn::BitCast(d16, weight), to);
      };
      add(load_blocks(at, offset), hn::Broadcast<0>(weights), sum[0]);
      add(load_blocks(at, offset + 1), hn::Broadcast<1>(weights), sum[1]);
      add(load_blocks(at, offset + 2), hn::Broadcast<2>(weights), sum[2]);
      add(load_blocks(at, offset + 3), hn::Broadcast<3>(weights), sum[3]);
    }
    const hn::Repartition<int64_t, DI> d64;
    const auto red_green_01 = hn::BitCast(d64, hn::InterleaveLower(di, sum[0], sum[1]));
    const auto red_green_23 = hn::BitCast(d64, hn::InterleaveLower(di, sum[2], sum[3]));
    const auto blue_01 = hn::BitCast(d64, hn::InterleaveUpper(di, sum[0], sum[1]));
    const auto blue_23 = hn::BitCast(d64, hn::InterleaveUpper(di, sum[2], sum[3]));
    return {{to_levels(hn::BitCast(di, hn::InterleaveLower(d64, red_green_01, red_green_23))),
             to_levels(hn::BitCast(di, hn::InterleaveUpper(d64, red_green_01, red_green_23))),
             to_levels(hn::BitCast(di, hn::InterleaveLower(d64, blue_01, blue_23)))}};
  }
}

#endif  // HWY_TARGET == HWY_SCALAR

template <int kChannels, Store kStore>
HWY_NOINLINE void filtered_rows(const RenderJob& job, const SamplingAxes& axes) {
  const Plan& plan = *job.plan;
  RenderScratch& scratch = render_scratch();
  Taps& across = scratch.across;
  Taps& down = scratch.down;
  across.assign(axes.x);
  down.assign(axes.y);
  const Finisher<kChannels, kStore> finisher(job);
  const int line_count = std::max(across.pixel_end - across.first_pixel, 0) * kChannels;
  // Taps of weight 0 and the last block reach beyond the line's end.
  scratch.mixed_rows.resize(static_cast<size_t>(line_count + 2 * across.pair_count * kChannels + 8 + 2 * kLanes));
  int16_t* line = scratch.mixed_rows.data();
  for (int32_t& pixel : across.first) pixel = (pixel - across.first_pixel) * kChannels;
  const uint8_t* corner = job.pixels + static_cast<ptrdiff_t>(across.first_pixel - job.window_x) * kChannels;
  for (int row = 0; row < plan.output_height; ++row) {
    if (row < down.begin || row >= down.end || across.begin == across.end) {
      finisher.fill(row, 0, plan.output_width);
      finisher.end_row(row);
      continue;
    }
    const int i = row - down.begin;
    mix_rows({.first = corner + (down.first[i] - job.window_y) * job.row_stride,
              .last = corner + (down.pixel_end - 1 - job.window_y) * job.row_stride,
              .row_stride = job.row_stride,
              .pairs = &down.pairs[i],
              .pair_stride = down.pair_stride,
              .pair_count = down.pair_count},
             line_count, line);
    finisher.fill(row, 0, across.begin);
    finisher.fill(row, across.end, plan.output_width);
    for_each_vector(across.begin, across.end, [&](int column, int count) HWY_ATTR {
      const int j = column - across.begin;
      finisher.put(filtered<kChannels>(line, &across.first[j], &across.pairs[j], across), row, column, count);
    });
    finisher.end_row(row);
  }
}

}  // namespace penstock::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard, toggled for each target
