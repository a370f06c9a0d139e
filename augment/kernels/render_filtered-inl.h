// filtered_rows(): resampling by a filter whose weights are not negative (triangle, box, hamming), for maps along the
// axes. render_rows.cpp includes this file once for each instruction set. render_lobed-inl.h has the other filters.
//
// All arithmetic is in integers, so that the bits do not depend on the order of the sums. For each output row, its
// picture rows are first mixed into one line of i16 values (levels * 2^7, rounded once). Each output pixel is then a
// sum over pairs of neighbouring pixels of that line: one instruction (pmaddwd) adds two taps of four channels, of
// which the fourth is unused. These sums are i32, with 2^21 to a level. They do not overflow, because 128 * 255 * 2^14
// < 2^29.
#if defined(PENSTOCK_RENDER_FILTERED_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PENSTOCK_RENDER_FILTERED_INL_H
#undef PENSTOCK_RENDER_FILTERED_INL_H
#else
#define PENSTOCK_RENDER_FILTERED_INL_H
#endif

#include <array>

#include "augment/kernels/render_lanes-inl.h"
#include "augment/plan/sampling.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace penstock::detail::HWY_NAMESPACE {

constexpr float kLevel = kLevelOfSum;
constexpr int kSpareLine = 64;  // i16 values

/// The rows that one output row is made of, and their weights. Rows of a picture are levels, u8. Rows that have been
/// filtered across are i16, levels * 2^7.
template <class T>
struct RowTaps {
  const T* first;  // the row of the first tap, at the first value of the line
  const T* last;   // the last row that may be read
  ptrdiff_t row_stride;
  const uint32_t* pairs;  // pairs of weights, pair_stride entries apart
  ptrdiff_t pair_stride;
  int pair_count;
};

/// What makes levels * 2^7 of a sum over rows.
template <class T>
constexpr int kRowShift = sizeof(T) == 1 ? kMixedShift : kWeightBits;

/// Where the sums of an output row are written: value = sum * factor + addend. The planes are `plane` floats apart.
struct LineTarget {
  float* planes = nullptr;
  ptrdiff_t plane = 0;
  std::array<float, 3> factor{kLevel, kLevel, kLevel};
  std::array<float, 3> addend{};

  HWY_INLINE void put(VI sum, int channel, int i) const {
    const V value = hn::Mul(hn::ConvertTo(D(), sum), hn::Set(D(), factor[channel]));
    hn::StoreU(hn::Add(value, hn::Set(D(), addend[channel])), D(), planes + channel * plane + i);
  }
};

#if HWY_TARGET == HWY_SCALAR  // a processor without SSSE3: one lane

HWY_INLINE int32_t weight_of(const uint32_t* pairs, ptrdiff_t pair_stride, int tap) {
  return static_cast<int16_t>(pairs[tap / 2 * pair_stride] >> (tap % 2 * 16));
}

template <class T>
HWY_NOINLINE void mix_rows(const RowTaps<T>& taps, int count, int16_t* line) {
  for (int i = 0; i < count; ++i) {
    int32_t sum = 1 << (kRowShift<T> - 1);
    const T* from = taps.first;
    for (int tap = 0; tap < 2 * taps.pair_count; ++tap, from += taps.row_stride)
      sum += weight_of(taps.pairs, taps.pair_stride, tap) * std::min(from, taps.last)[i];
    line[i] = static_cast<int16_t>(std::clamp(sum >> kRowShift<T>, INT16_MIN, INT16_MAX));  // as the vectors do
  }
}

template <int kChannels, class Target>
HWY_NOINLINE void filter_line(const int16_t* line, const FilterScratch& filter, const Target& to) {
  const Taps& taps = filter.across;
  for (int i = 0; i < taps.end - taps.begin; ++i) {
    for (int channel = 0; channel < kChannels; ++channel) {
      int32_t sum = 0;
      for (int tap = 0; tap < 2 * taps.pair_count; ++tap)
        sum += weight_of(&taps.pairs[i], taps.pair_stride, tap) * line[filter.offset[i] + tap * kChannels + channel];
      to.put(hn::Set(DI(), sum), channel, i);
    }
  }
}

#else

using D16 = hn::Repartition<int16_t, DI>;
using DHalf8 = hn::Rebind<uint8_t, D16>;
using V16 = hn::Vec<D16>;
constexpr int kLanes16 = 2 * kLanes;

HWY_INLINE VI add_pairs(V16 a, V16 b, VI sum) {
  VI unused = sum;  // x86 has one pmaddwd instruction for this, which keeps the order of the lanes
  return hn::ReorderWidenMulAccumulate(DI(), a, b, sum, unused);
}

HWY_INLINE V16 load_16(const uint8_t* from, int count) {
  if (count == kLanes16) return hn::PromoteTo(D16(), hn::LoadU(DHalf8(), from));
  HWY_ALIGN uint8_t part[kLanes16] = {};
  std::memcpy(part, from, static_cast<size_t>(count));
  return hn::PromoteTo(D16(), hn::Load(DHalf8(), part));
}

HWY_INLINE V16 load_16(const int16_t* from, int count) {
  if (count == kLanes16) return hn::LoadU(D16(), from);
  HWY_ALIGN int16_t part[kLanes16] = {};
  std::memcpy(part, from, static_cast<size_t>(count) * sizeof *part);
  return hn::Load(D16(), part);
}

/// Mixes `count` values at `offset` of each row; the result is levels * 2^7, saturated (with negative weights only).
/// kPairs is the number of pairs of rows; 0 takes the number from `taps`.
template <int kPairs, class T>
HWY_INLINE V16 mixed(const RowTaps<T>& taps, int offset, int count) {
  const D16 d16;
  VI low = hn::Set(DI(), 1 << (kRowShift<T> - 1)), high = low;
  const int pair_count = kPairs > 0 ? kPairs : taps.pair_count;
  for (int p = 0; p < pair_count; ++p) {
    // The second row of the last pair may lie outside of the rows. Its weight is then 0.
    const T* upper = std::min(taps.first + 2 * p * taps.row_stride, taps.last);
    const T* lower = std::min(taps.first + (2 * p + 1) * taps.row_stride, taps.last);
    const V16 a = load_16(upper + offset, count), b = load_16(lower + offset, count);
    const V16 weights = hn::BitCast(d16, hn::Set(DU(), taps.pairs[p * taps.pair_stride]));
    low = add_pairs(hn::InterleaveLower(d16, a, b), weights, low);
    high = add_pairs(hn::InterleaveUpper(d16, a, b), weights, high);
  }
  return hn::ReorderDemote2To(d16, hn::ShiftRight<kRowShift<T> >(low), hn::ShiftRight<kRowShift<T> >(high));
}

template <int kPairs, class T>
HWY_NOINLINE void mix_pairs(const RowTaps<T>& row, int count, int16_t* line) {
  const RowTaps<T> taps = row;  // a copy stays in registers; a vector store might alias what a reference refers to
  if (count < kLanes16) return hn::StoreU(mixed<kPairs>(taps, 0, count), D16(), line);
  int i = 0;
  for (; i + kLanes16 <= count; i += kLanes16) hn::StoreU(mixed<kPairs>(taps, i, kLanes16), D16(), line + i);
  if (i < count) hn::StoreU(mixed<kPairs>(taps, count - kLanes16, kLanes16), D16(), line + count - kLanes16);
}

/// Mixes the first `count` values of the rows; the result is levels * 2^7. One pair of rows is enough where the picture
/// is enlarged, and two pairs down to half of its height. These two cases are unrolled.
template <class T>
HWY_INLINE void mix_rows(const RowTaps<T>& taps, int count, int16_t* line) {
  if (taps.pair_count == 1) return mix_pairs<1>(taps, count, line);
  if (taps.pair_count == 2) return mix_pairs<2>(taps, count, line);
  mix_pairs<0>(taps, count, line);
}

/// Loads a block of 128 bits (eight i16 values) at each of line + offset[0], line + offset[4], ..
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

/// Reorders each block from R0 G0 B0 R1 G1 B1 .. to R0 R1 G0 G1 B0 B1 and two unused values.
HWY_INLINE V16 in_pairs(V16 pixels) {
  alignas(16) static constexpr uint8_t kPairs[16] = {0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11, 4, 5, 10, 11};
  const hn::Repartition<uint8_t, DI> d8;
  return hn::BitCast(D16(), hn::TableLookupBytes(hn::BitCast(d8, pixels), hn::LoadDup128(d8, kPairs)));
}

/// Loads two taps of each pixel of one part (see AcrossTable). `line` points to the first of these taps.
template <bool kIsGrouped>
HWY_INLINE V16 load_part(const int16_t* line, const FilterScratch& filter, int vector, int first, int part) {
#if HWY_MAX_BYTES == 64
  if constexpr (kIsGrouped) {
    const AcrossTable& table = filter.table;
    const V16 order = hn::BitCast(D16(), hn::LoadU(hn::Repartition<uint16_t, DI>(),
                                                   &table.order[static_cast<size_t>(vector * 4 + part) * kLanes16]));
    const V16 pixels = hn::LoadU(D16(), line + table.base[vector * 4 + part]);
    // Highway 1.0.3 has this instruction for 32 and 64 bits only.
    return V16{_mm512_permutexvar_epi16(order.raw, pixels.raw)};
  }
#endif
  (void)vector;
  return in_pairs(load_blocks(line, &filter.offset[first + part]));
}

/// Within each block of 128 bits: sum[j] holds the four channels of a pixel of part j; channel[i] receives channel i of
/// the four parts.
HWY_INLINE void transpose(const VI (&sum)[4], VI (&channel)[3]) {
  const DI di;
  const hn::Repartition<int64_t, DI> d64;
  const auto red_green_01 = hn::BitCast(d64, hn::InterleaveLower(di, sum[0], sum[1]));
  const auto red_green_23 = hn::BitCast(d64, hn::InterleaveLower(di, sum[2], sum[3]));
  const auto blue_01 = hn::BitCast(d64, hn::InterleaveUpper(di, sum[0], sum[1]));
  const auto blue_23 = hn::BitCast(d64, hn::InterleaveUpper(di, sum[2], sum[3]));
  channel[0] = hn::BitCast(di, hn::InterleaveLower(d64, red_green_01, red_green_23));
  channel[1] = hn::BitCast(di, hn::InterleaveUpper(d64, red_green_01, red_green_23));
  channel[2] = hn::BitCast(di, hn::InterleaveLower(d64, blue_01, blue_23));
}

/// Puts the pixels of a grouped sum in order: its lane 4 * b + j holds pixel 4 * j + b.
HWY_INLINE VI ungrouped(VI sum) {
#if HWY_MAX_BYTES == 64
  alignas(64) static constexpr int32_t kOrder[16] = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
  return hn::TableLookupLanes(sum, hn::SetTableIndices(DI(), kOrder));
#else
  return sum;
#endif
}

template <int kPairs, bool kIsGrouped, class Target>
HWY_NOINLINE void filter_pixels(const int16_t* line, const FilterScratch& filter, const Target& to) {
  const D16 d16;
  const int count = filter.across.end - filter.across.begin;
  const int pair_count = kPairs > 0 ? kPairs : filter.across.pair_count;
  const uint32_t* weights = filter.table.weights.data();
  for (int vector = 0; vector * kLanes < count; ++vector) {
    const int first = AcrossTable::first_of(vector, kLanes, count);
    VI sum[4] = {hn::Zero(DI()), hn::Zero(DI()), hn::Zero(DI()), hn::Zero(DI())};
    for (int p = 0; p < pair_count; ++p, weights += 4 * kLanes) {
      const auto add = [&](int part, VI& part_sum) HWY_ATTR {
        const V16 weight = hn::BitCast(d16, hn::LoadU(DU(), weights + part * kLanes));
        part_sum = add_pairs(load_part<kIsGrouped>(line + 6 * p, filter, vector, first, part), weight, part_sum);
      };
      add(0, sum[0]), add(1, sum[1]), add(2, sum[2]), add(3, sum[3]);
    }
    VI channel[3];
    transpose(sum, channel);
    for (int i = 0; i < 3; ++i) to.put(kIsGrouped ? ungrouped(channel[i]) : channel[i], i, first);
  }
}

/// The version for grey pictures: a gather loads two neighbouring values of the line for every lane.
template <class Target>
HWY_NOINLINE void filter_greys(const int16_t* line, const FilterScratch& filter, const Target& to) {
  const D16 d16;
  const Taps& taps = filter.across;
  const int count = taps.end - taps.begin;
  for (int vector = 0; vector * kLanes < count; ++vector) {
    const int i = AcrossTable::first_of(vector, kLanes, count);
    const VI offset = hn::ShiftLeft<1>(hn::LoadU(DI(), &filter.offset[i]));  // in bytes
    VI sum = hn::Zero(DI());
    for (int p = 0; p < taps.pair_count; ++p) {
      const VI two = hn::GatherOffset(DI(), reinterpret_cast<const int32_t*>(line + 2 * p), offset);
      const VU weights = hn::LoadU(DU(), &taps.pairs[p * taps.pair_stride + i]);
      sum = add_pairs(hn::BitCast(d16, two), hn::BitCast(d16, weights), sum);
    }
    to.put(sum, 0, i);
  }
}

template <bool kIsGrouped, class Target>
HWY_INLINE void filter_pixels_of(const int16_t* line, const FilterScratch& filter, const Target& to) {
  if (filter.across.pair_count == 1) return filter_pixels<1, kIsGrouped>(line, filter, to);
  if (filter.across.pair_count == 2) return filter_pixels<2, kIsGrouped>(line, filter, to);
  filter_pixels<0, kIsGrouped>(line, filter, to);
}

/// Filters the output pixels whose centres lie in the picture. Writes a whole vector even where they are fewer than
/// kLanes.
template <int kChannels, class Target>
HWY_INLINE void filter_line(const int16_t* line, const FilterScratch& filter, const Target& to) {
  if (kChannels == 1) return filter_greys(line, filter, to);
#if HWY_MAX_BYTES == 64
  if (filter.table.is_grouped) return filter_pixels_of<true>(line, filter, to);
#endif
  filter_pixels_of<false>(line, filter, to);
}

#endif  // HWY_TARGET == HWY_SCALAR

/// Computes the taps and makes room for a line of the picture, whose length in i16 values is the result.
template <int kChannels>
HWY_INLINE int prepare_filter(const SamplingAxes& axes, FilterScratch& filter) {
  const Taps& across = filter.across;
  filter.across.assign(axes.x);
  filter.down.assign(axes.y);
  filter.offset.resize(across.first.size());
  for (size_t i = 0; i < across.first.size(); ++i)
    filter.offset[i] = (across.first[i] - across.first_pixel) * kChannels;
  if (kChannels == 3) filter.table.assign(across, filter.offset, kLanes, /*may_group=*/HWY_MAX_BYTES == 64);
  const int line_count = std::max(across.pixel_end - across.first_pixel, 0) * kChannels;
  // The spare space at the end is for taps of weight 0 and for the last load, which read after the line's end, and for
  // the last vector of levels, which is written after its plane's end.
  filter.line.resize(static_cast<size_t>(line_count + 2 * across.pair_count * kChannels + kSpareLine));
  return line_count;
}

template <int kChannels, Store kStore>
HWY_NOINLINE void filtered_rows(const RenderJob& job, const SamplingAxes& axes) {
  const Plan& plan = *job.plan;
  FilterScratch& filter = render_scratch().filter;
  const int line_count = prepare_filter<kChannels>(axes, filter);
  const Taps& across = filter.across;
  const Taps& down = filter.down;
  const Finisher<kChannels, kStore> finisher(job);
  filter.levels.resize(static_cast<size_t>(across.pair_stride) * kChannels);
  int16_t* line = filter.line.data();
  const LineTarget levels{.planes = filter.levels.data(), .plane = across.pair_stride};
  // Where nothing comes between filtering and normalising, both are one multiplication and one addition. The factor
  // then differs from the normalisation's by a power of two only, so that the bits are the same as those of
  // Finisher::put().
  const bool is_direct =
      finisher.is_plain() && across.begin == 0 && across.end == plan.output_width && plan.output_width >= kLanes;
  LineTarget direct{.plane = finisher.plane_stride(), .addend = job.normalization.bias};
  for (int i = 0; i < kChannels; ++i) direct.factor[i] = job.normalization.scale[i] * kLevel;
  const uint8_t* corner = job.pixels + static_cast<ptrdiff_t>(across.first_pixel - job.window_x) * kChannels;
  for (int row = 0; row < plan.output_height; ++row) {
    if (row < down.begin || row >= down.end || across.begin == across.end) {
      finisher.fill(row, 0, plan.output_width);
      finisher.end_row(row);
      continue;
    }
    const int i = row - down.begin;
    mix_rows<uint8_t>({.first = corner + (down.first[i] - job.window_y) * job.row_stride,
                       .last = corner + (down.pixel_end - 1 - job.window_y) * job.row_stride,
                       .row_stride = job.row_stride,
                       .pairs = &down.pairs[i],
                       .pair_stride = down.pair_stride,
                       .pair_count = down.pair_count},
                      line_count, line);
    finisher.fill(row, 0, across.begin);
    finisher.fill(row, across.end, plan.output_width);
    if (is_direct) {
      direct.planes = finisher.row_planes(row);
      filter_line<kChannels>(line, filter, direct);
    } else {
      filter_line<kChannels>(line, filter, levels);
      for_each_vector(across.begin, across.end, [&](int column, int count) HWY_ATTR {
        Levels<kChannels> loaded;
        for (int i = 0; i < kChannels; ++i)
          loaded.channel[i] = hn::LoadU(D(), levels.planes + i * levels.plane + column - across.begin);
        finisher.put(loaded, row, column, count);
      });
    }
    finisher.end_row(row);
  }
}

}  // namespace penstock::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard, toggled for each target
