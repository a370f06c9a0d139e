// lobed_rows(): resampling along the axes by a filter with negative weights, bicubic or lanczos. render_rows.cpp
// includes this file once for each instruction set.
//
// The sums of such a filter may leave the range of the levels, and where they are cut off decides what is seen next to
// a white edge. So the passes have Pillow's order (goes_down_first()), and each one limits its sums to 0..255, as
// Pillow does. Deviation: between the passes there are levels * 2^7, and not whole ones. With whole ones, of 10^7
// levels 20 would be 2 away from Pillow's, where its weights of 22 bits round to another level than those of 14 bits.
//
// Both passes are those of filtered_rows(): sums across a line, and mixtures of rows.
#if defined(PENSTOCK_RENDER_LOBED_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PENSTOCK_RENDER_LOBED_INL_H
#undef PENSTOCK_RENDER_LOBED_INL_H
#else
#define PENSTOCK_RENDER_LOBED_INL_H
#endif

#include "augment/kernels/render_filtered-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace penstock::detail::HWY_NAMESPACE {

/// Where the sums of a row of levels are written: as levels * 2^7, limited, in planes that are `plane` values apart.
struct LevelTarget {
  int16_t* planes;
  ptrdiff_t plane;

  HWY_INLINE void put(VI sum, int channel, int i) const {
    const VI level = hn::ShiftRight<kMixedShift>(hn::Add(sum, hn::Set(DI(), kHalfOfMixed)));
    const VI limited = hn::Min(hn::Max(level, hn::Zero(DI())), hn::Set(DI(), kWhiteOfLine));
    const hn::Rebind<int16_t, DI> d16;
    hn::StoreU(hn::DemoteTo(d16, limited), d16, planes + channel * plane + i);
  }
};

HWY_INLINE void widen_row(const uint8_t* from, int count, int16_t* line) {
  for (int i = 0; i < count; ++i) line[i] = from[i];  // the compiler makes vectors of it
}

/// `kLanes` values of a mixed line, limited to 0..255 levels.
HWY_INLINE V limited_levels(const int16_t* line) {
  const hn::Rebind<int16_t, DI> d16;
  const VI value = hn::PromoteTo(DI(), hn::LoadU(d16, line));
  const VI limited = hn::Min(hn::Max(value, hn::Zero(DI())), hn::Set(DI(), kWhiteOfLine));
  return hn::Mul(hn::ConvertTo(D(), limited), hn::Set(D(), 1.f / (1 << kLineBits)));
}

/// Where the sums across a mixed line are written: as levels limited to 0..255, in planes of floats.
struct LimitedTarget {
  float* planes;
  ptrdiff_t plane;

  HWY_INLINE void put(VI sum, int channel, int i) const {
    const VI limited = hn::Min(hn::Max(sum, hn::Zero(DI())), hn::Set(DI(), kWhiteOfLine << kWeightBits));
    hn::StoreU(hn::Mul(hn::ConvertTo(D(), limited), hn::Set(D(), kLevel)), D(), planes + channel * plane + i);
  }
};

HWY_INLINE void limit_line(int16_t* line, int count) {
  for (int i = 0; i < count; ++i) line[i] = std::clamp<int16_t>(line[i], 0, kWhiteOfLine);
}

/// The rows of which row down.begin + i of the output is made. `rows` begins with the row of down.first_pixel.
template <class T>
HWY_INLINE RowTaps<T> row_taps(const Taps& down, int i, const T* rows, ptrdiff_t stride) {
  return {.first = rows + (down.first[i] - down.first_pixel) * stride,
          .last = rows + (down.pixel_end - 1 - down.first_pixel) * stride,
          .row_stride = stride,
          .pairs = &down.pairs[i],
          .pair_stride = down.pair_stride,
          .pair_count = down.pair_count};
}

/// The rows of a picture, first across.
template <int kChannels>
struct AcrossFirst {
  FilterScratch& filter;
  ptrdiff_t plane, stride;  // of the rows after the first pass, in values

  HWY_INLINE AcrossFirst(FilterScratch& scratch, const uint8_t* from, ptrdiff_t row_stride, int line_count)
      : filter(scratch), plane(scratch.across.pair_stride), stride(plane * kChannels) {
    const int row_count = std::max(filter.down.pixel_end - filter.down.first_pixel, 0);
    filter.rows.resize(static_cast<size_t>(stride * row_count));
    for (int row = 0; row < row_count; ++row) {
      widen_row(from + row * row_stride, line_count, filter.line.data());
      filter_line<kChannels>(filter.line.data(), filter, LevelTarget{filter.rows.data() + row * stride, plane});
    }
    // The line of the second pass has the width of the output.
    filter.line.resize(std::max(filter.line.size(), static_cast<size_t>(stride) + kSpareLine));
  }

  /// Prepares the row down.begin + i of the output.
  HWY_INLINE void make_row(int i) const {
    mix_rows(row_taps<int16_t>(filter.down, i, filter.rows.data(), stride), static_cast<int>(stride),
             filter.line.data());
  }

  /// Its levels from the column across.begin + i on.
  HWY_INLINE V level(int channel, int i) const { return limited_levels(filter.line.data() + channel * plane + i); }
};

/// The same, first down.
template <int kChannels>
struct DownFirst {
  FilterScratch& filter;
  const uint8_t* from;
  ptrdiff_t row_stride, plane;
  int line_count;

  HWY_INLINE DownFirst(FilterScratch& scratch, const uint8_t* pixels, ptrdiff_t bytes, int count)
      : filter(scratch), from(pixels), row_stride(bytes), plane(scratch.across.pair_stride), line_count(count) {
    filter.levels.resize(static_cast<size_t>(plane) * kChannels);
  }

  HWY_INLINE void make_row(int i) const {
    int16_t* line = filter.line.data();
    mix_rows(row_taps<uint8_t>(filter.down, i, from, row_stride), line_count, line);
    limit_line(line, line_count);
    filter_line<kChannels>(line, filter, LimitedTarget{filter.levels.data(), plane});
  }

  HWY_INLINE V level(int channel, int i) const { return hn::LoadU(D(), filter.levels.data() + channel * plane + i); }
};

template <int kChannels, Store kStore, class Passes>
HWY_NOINLINE void finish_rows(const RenderJob& job, const Passes& passes) {
  const Taps &across = passes.filter.across, &down = passes.filter.down;
  const int width = job.plan->output_width;
  const Finisher<kChannels, kStore> finisher(job);
  for (int row = 0; row < job.plan->output_height; ++row) {
    const bool is_seen = row >= down.begin && row < down.end && across.begin < across.end;
    finisher.fill(row, 0, is_seen ? across.begin : width);
    if (is_seen) {
      passes.make_row(row - down.begin);
      finisher.fill(row, across.end, width);
      for_each_vector(across.begin, across.end, [&](int column, int count) HWY_ATTR {
        Levels<kChannels> levels;
        for (int c = 0; c < kChannels; ++c) levels.channel[c] = passes.level(c, column - across.begin);
        finisher.put(levels, row, column, count);
      });
    }
    finisher.end_row(row);
  }
}

template <int kChannels, Store kStore>
HWY_NOINLINE void lobed_rows(const RenderJob& job, const SamplingAxes& axes) {
  FilterScratch& filter = render_scratch().filter;
  const int line_count = prepare_filter<kChannels>(axes, filter);
  const Taps &across = filter.across, &down = filter.down;
  const uint8_t* from = job.pixels + (down.first_pixel - job.window_y) * job.row_stride +
                        static_cast<ptrdiff_t>(across.first_pixel - job.window_x) * kChannels;
  if (goes_down_first(axes.x, axes.y) || across.begin == across.end)
    return finish_rows<kChannels, kStore>(job, DownFirst<kChannels>(filter, from, job.row_stride, line_count));
  finish_rows<kChannels, kStore>(job, AcrossFirst<kChannels>(filter, from, job.row_stride, line_count));
}

}  // namespace penstock::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard, toggled for each target
