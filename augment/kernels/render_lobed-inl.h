// lobed_rows(): resampling along the axes by a filter with negative weights, bicubic or lanczos. render_rows.cpp
// includes this file once for each instruction set.
//
// The sums of such a filter may leave the range of the levels, and where they are cut off decides what is seen next to
// a white edge. So the passes are in Pillow's order, unlike those of filtered_rows(): first across each picture row,
// with sums rounded to whole levels and limited to 0..255, then down the columns. The first pass is that of
// filtered_rows() with levels in place of its mixed line; the second is its mixing of rows, whose sums have 1/128 of a
// level and are limited once more.
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

/// Where the sums of a row of levels are written: as whole levels 0..255, in planes that are `plane` bytes apart.
struct LevelTarget {
  uint8_t* planes;
  ptrdiff_t plane;

  HWY_INLINE void put(VI sum, int channel, int i) const {
    const VI level = hn::ShiftRight<kWeightBits>(hn::Add(sum, hn::Set(DI(), 1 << (kWeightBits - 1))));
    hn::StoreU(hn::DemoteTo(D8(), level), D8(), planes + channel * plane + i);  // saturates
  }
};

HWY_INLINE void widen_row(const uint8_t* from, int count, int16_t* line) {
  for (int i = 0; i < count; ++i) line[i] = from[i];  // the compiler makes vectors of it
}

/// `kLanes` values of a mixed line, limited to 0..255 levels.
HWY_INLINE V limited_levels(const int16_t* line) {
  const hn::Rebind<int16_t, DI> d16;
  const VI value = hn::PromoteTo(DI(), hn::LoadU(d16, line));
  const VI limited = hn::Min(hn::Max(value, hn::Zero(DI())), hn::Set(DI(), 255 << kLineBits));
  return hn::Mul(hn::ConvertTo(D(), limited), hn::Set(D(), 1.f / (1 << kLineBits)));
}

template <int kChannels, Store kStore>
HWY_NOINLINE void lobed_rows(const RenderJob& job, const SamplingAxes& axes) {
  const Plan& plan = *job.plan;
  FilterScratch& filter = render_scratch().filter;
  const int line_count = prepare_filter<kChannels>(axes, filter);
  const Taps& across = filter.across;
  const Taps& down = filter.down;
  const Finisher<kChannels, kStore> finisher(job);
  const ptrdiff_t plane = across.pair_stride, stride = plane * kChannels;
  const int row_count = across.begin == across.end ? 0 : std::max(down.pixel_end - down.first_pixel, 0);
  filter.rows.resize(static_cast<size_t>(stride * row_count));
  const uint8_t* from = job.pixels + (down.first_pixel - job.window_y) * job.row_stride +
                        static_cast<ptrdiff_t>(across.first_pixel - job.window_x) * kChannels;
  for (int row = 0; row < row_count; ++row) {
    widen_row(from + row * job.row_stride, line_count, filter.line.data());
    filter_line<kChannels>(filter.line.data(), filter, LevelTarget{filter.rows.data() + row * stride, plane});
  }
  // The line of the second pass has the width of the output.
  filter.line.resize(std::max(filter.line.size(), static_cast<size_t>(stride) + kSpareLine));
  int16_t* line = filter.line.data();
  for (int row = 0; row < plan.output_height; ++row) {
    if (row < down.begin || row >= down.end || across.begin == across.end) {
      finisher.fill(row, 0, plan.output_width);
      finisher.end_row(row);
      continue;
    }
    const int i = row - down.begin;
    const uint8_t* first = filter.rows.data() - down.first_pixel * stride;
    mix_rows({.first = first + down.first[i] * stride,
              .last = first + (down.pixel_end - 1) * stride,
              .row_stride = stride,
              .pairs = &down.pairs[i],
              .pair_stride = down.pair_stride,
              .pair_count = down.pair_count},
             static_cast<int>(stride), line);
    finisher.fill(row, 0, across.begin);
    finisher.fill(row, across.end, plan.output_width);
    for_each_vector(across.begin, across.end, [&](int column, int count) HWY_ATTR {
      Levels<kChannels> levels;
      for (int c = 0; c < kChannels; ++c) levels.channel[c] = limited_levels(line + c * plane + column - across.begin);
      finisher.put(levels, row, column, count);
    });
    finisher.end_row(row);
  }
}

}  // namespace penstock::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard, toggled for each target
