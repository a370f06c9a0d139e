// Passes over planes of f32 levels, written in Highway SIMD. They are compiled once for each instruction set, and the
// best set is chosen at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "augment/kernels/color_rows.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.h
#include "augment/kernels/color_lanes-inl.h"
#include "augment/kernels/color_rows.h"
#include "augment/kernels/render_lanes-inl.h"
#include "augment/pixels/rounding.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace penstock::detail::HWY_NAMESPACE {

/// Loads `count` levels. The lanes after them are 0.
HWY_INLINE V load_part(const float* from, int count) {
  if (count == kLanes) return hn::LoadU(D(), from);
  HWY_ALIGN float lanes[kLanes] = {};
  std::memcpy(lanes, from, static_cast<size_t>(count) * sizeof(float));
  return hn::Load(D(), lanes);
}

HWY_INLINE void store_part(V value, float* to, int count) {
  if (count == kLanes) return hn::StoreU(value, D(), to);
  HWY_ALIGN float lanes[kLanes];
  hn::Store(value, D(), lanes);
  std::memcpy(to, lanes, static_cast<size_t>(count) * sizeof(float));
}

template <int kChannels>
HWY_INLINE Levels<kChannels> load_pixels(const ColorPlanes& planes, size_t first, int count) {
  Levels<kChannels> levels;
  for (int i = 0; i < kChannels; ++i) levels.channel[i] = load_part(planes.plane(i) + first, count);
  return levels;
}

/// Calls body(first, count) for vectors that cover [begin, end). No pixel is in two vectors, because the planes are
/// changed in place.
template <class Body>
HWY_INLINE void for_each_part(size_t begin, size_t end, const Body& body) {
  size_t first = begin;
  for (; first + kLanes <= end; first += kLanes) body(first, kLanes);
  if (first < end) body(first, static_cast<int>(end - first));
}

template <int kChannels>
int64_t grey_sum(const ColorPlanes& planes, Rounding rounding) {
  const DI di;
  constexpr size_t kBlock = 32768;  // 32768 * 255 * 128 is below 2^31, so even a single lane does not overflow
  int64_t sum = 0;
  for (size_t begin = 0; begin < planes.pixels(); begin += kBlock) {
    VI sums = hn::Zero(di);
    for_each_part(begin, std::min(begin + kBlock, planes.pixels()), [&](size_t first, int count) HWY_ATTR {
      const Levels<kChannels> levels = load_pixels<kChannels>(planes, first, count);
      const V grey = rounding == Rounding::kNone ? clamped(grey_of(levels)) : grey_of(whole_levels(levels), rounding);
      const VI parts = hn::NearestInt(hn::Mul(grey, hn::Set(D(), 128.f)));
      sums = hn::Add(sums, parts);  // lanes from `count` on are 0
    });
    HWY_ALIGN int32_t lanes[kLanes];
    hn::Store(sums, di, lanes);
    for (const int32_t one : lanes) sum += one;
  }
  return sum;
}

int64_t grey_sum_of(const ColorPlanes& planes, Rounding rounding) {
  return planes.channels == 1 ? grey_sum<1>(planes, rounding) : grey_sum<3>(planes, rounding);
}

void plane_extremes(const float* plane, size_t pixels, float* least, float* greatest) {
  const D d;
  const V lane = hn::Iota(d, 0), any = hn::Set(d, plane[0]);
  V low = any, high = any;
  for_each_part(0, pixels, [&](size_t first, int count) HWY_ATTR {
    const auto is_there = hn::Lt(lane, hn::Set(d, static_cast<float>(count)));
    const V level = hn::IfThenElse(is_there, load_part(plane + first, count), any);
    low = hn::Min(low, level);
    high = hn::Max(high, level);
  });
  *least = hn::GetLane(hn::MinOfLanes(d, low));
  *greatest = hn::GetLane(hn::MaxOfLanes(d, high));
}

template <int kChannels>
void point_steps(const ColorPlanes& planes, std::span<const PointStep> steps) {
  for_each_part(0, planes.pixels(), [&](size_t first, int count) HWY_ATTR {
    const Levels<kChannels> levels = colored(load_pixels<kChannels>(planes, first, count), steps);
    for (int i = 0; i < kChannels; ++i) store_part(levels.channel[i], planes.plane(i) + first, count);
  });
}

void point_steps_of(const ColorPlanes& planes, std::span<const PointStep> steps) {
  planes.channels == 1 ? point_steps<1>(planes, steps) : point_steps<3>(planes, steps);
}

template <int kChannels, Store kStore>
void finished_rows(const ColorPlanes& planes, const RenderJob& job) {
  const Finisher<kChannels, kStore> finisher(job);
  for (int row = 0; row < planes.height; ++row) {
    for_each_vector(0, planes.width, [&](int column, int count) HWY_ATTR {
      const size_t first = static_cast<size_t>(row) * planes.width + column;
      finisher.put(load_pixels<kChannels>(planes, first, count), row, column, count);
    });
    finisher.end_row(row);
  }
}

template <Store kStore>
void finished_rows(const ColorPlanes& planes, const RenderJob& job) {
  planes.channels == 1 ? finished_rows<1, kStore>(planes, job) : finished_rows<3, kStore>(planes, job);
}

void finished_rows_of(const ColorPlanes& planes, const RenderJob& job) {
  job.layout == Layout::kU8Nhwc ? finished_rows<Store::kBytes>(planes, job)
                                : finished_rows<Store::kPlanes>(planes, job);
}

/// The lines of a blur's pass: before[k] and after[k] are at distance k on both sides of `middle`.
struct BlurLines {
  const float* middle = nullptr;
  const float *before[BlurTaps::kMaxReach + 1], *after[BlurTaps::kMaxReach + 1];
};

/// kVectors vectors from `column` on, whose sums do not wait for each other. With less than a vector, `count` levels.
template <int kVectors>
HWY_INLINE void blurred_part(const BlurPass& pass, const BlurLines& lines, int column, int count, float* to) {
  const D d;
  V sum[kVectors];
  const auto load = [&](const float* line, int i) HWY_ATTR { return load_part(line + column + i * kLanes, count); };
  for (int i = 0; i < kVectors; ++i) sum[i] = hn::Mul(load(lines.middle, i), hn::Set(d, pass.taps.weight[0]));
  for (int k = 1; k <= pass.taps.reach; ++k) {
    const V weight = hn::Set(d, pass.taps.weight[k]);
    for (int i = 0; i < kVectors; ++i)
      sum[i] = hn::Add(sum[i], hn::Mul(hn::Add(load(lines.before[k], i), load(lines.after[k], i)), weight));
  }
  for (int i = 0; i < kVectors; ++i) {
    const V level = pass.rounds ? hn::ConvertTo(d, whole(sum[i])) : clamped(sum[i]);
    store_part(level, to + column + i * kLanes, count);
  }
}

/// `to` is another line than all of `lines`.
HWY_INLINE void blurred_line(const BlurPass& pass, const BlurLines& lines, float* to) {
  constexpr int kVectors = 4;
  int column = 0;
  for (; column + kVectors * kLanes <= pass.width; column += kVectors * kLanes)
    blurred_part<kVectors>(pass, lines, column, kLanes, to);
  const int rest = std::min(column, std::max(pass.width - kLanes, 0));  // so that no vector is shortened
  for_each_vector(rest, pass.width,
                  [&](int begin, int count) HWY_ATTR { blurred_part<1>(pass, lines, begin, count, to); });
}

void blurred_rows(const BlurPass& pass, const float* from, float* to, float* scratch) {
  const int reach = pass.taps.reach, width = pass.width;
  float* const line = scratch + reach;  // with its border on both sides
  BlurLines lines;
  lines.middle = line;
  for (int k = 1; k <= reach; ++k) lines.before[k] = line - k, lines.after[k] = line + k;
  for (int row = 0; row < pass.height; ++row, from += width, to += width) {
    std::memcpy(line, from, static_cast<size_t>(width) * sizeof(float));
    for (int k = 1; k <= reach; ++k) {
      line[-k] = from[pixel_at(pass.border, -k, width)];
      line[width - 1 + k] = from[pixel_at(pass.border, width - 1 + k, width)];
    }
    blurred_line(pass, lines, to);
  }
}

void blurred_columns(const BlurPass& pass, const float* from, float* to) {
  const ptrdiff_t width = pass.width;
  const auto line = [&](int row) { return from + pixel_at(pass.border, row, pass.height) * width; };
  BlurLines lines;
  for (int row = 0; row < pass.height; ++row) {
    lines.middle = line(row);
    for (int k = 1; k <= pass.taps.reach; ++k) lines.before[k] = line(row - k), lines.after[k] = line(row + k);
    blurred_line(pass, lines, to + row * width);
  }
}

/// The new levels of `count` pixels of a row, the first one at `here`. The pixels above and below them lie pass.width
/// levels before and after them.
HWY_INLINE V sharpened(const SharpenPass& pass, const float* here, int count) {
  const D d;
  const auto load = [&](ptrdiff_t offset) HWY_ATTR { return load_part(here + offset, count); };
  const ptrdiff_t w = pass.width;
  const V level = load(0), above = hn::Add(hn::Add(load(-w - 1), load(-w)), hn::Add(load(-w + 1), load(-1))),
          below = hn::Add(hn::Add(load(1), load(w - 1)), hn::Add(load(w), load(w + 1)));
  const V sum = hn::Add(hn::Add(above, below), hn::Mul(hn::Set(d, 5.f), level));
  const V blurred = hn::Mul(sum, hn::Set(d, 1 / 13.f));
  if (pass.rounding != Rounding::kNone)  // 13 is odd: there are no ties
    return blended(level, cut(hn::Add(blurred, hn::Set(d, 0.5f))), pass.factor, pass.rounding);
  const V own = hn::Mul(hn::Set(d, pass.factor), level);
  return clamped(hn::Add(own, hn::Mul(hn::Set(d, 1 - pass.factor), blurred)));
}

/// `to` is another plane than `from`.
void sharpened_rows(const SharpenPass& pass, const float* from, float* to) {
  for (int row = 1; row + 1 < pass.height; ++row) {
    const ptrdiff_t first = static_cast<ptrdiff_t>(row) * pass.width;
    for_each_vector(1, pass.width - 1, [&](int column, int count) HWY_ATTR {
      store_part(sharpened(pass, from + first + column, count), to + first + column, count);
    });
  }
}

void looked_up(const std::array<float, 256>& table, std::span<float> levels) {
  for_each_part(0, levels.size(), [&](size_t first, int count) HWY_ATTR {
    const VI level = hn::ConvertTo(DI(), load_part(&levels[first], count));
    store_part(hn::GatherIndex(D(), table.data(), level), &levels[first], count);
  });
}

}  // namespace penstock::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace penstock::detail {

HWY_EXPORT(grey_sum_of);
HWY_EXPORT(plane_extremes);
HWY_EXPORT(point_steps_of);
HWY_EXPORT(finished_rows_of);
HWY_EXPORT(blurred_rows);
HWY_EXPORT(blurred_columns);
HWY_EXPORT(sharpened_rows);
HWY_EXPORT(looked_up);

float mean_grey(const ColorPlanes& planes, Rounding rounding) {
  const int64_t sum = HWY_DYNAMIC_DISPATCH(grey_sum_of)(planes, rounding);
  const double mean = static_cast<double>(sum) / (128.0 * static_cast<double>(planes.pixels()));
  return static_cast<float>(rounding == Rounding::kPillow ? std::floor(mean + 0.5) : mean);
}

Extremes extremes(const ColorPlanes& planes) {
  Extremes found;
  for (int i = 0; i < planes.channels; ++i)
    HWY_DYNAMIC_DISPATCH(plane_extremes)(planes.plane(i), planes.pixels(), &found.least[i], &found.greatest[i]);
  return found;
}

void apply_points(const ColorPlanes& planes, std::span<const PointStep> steps) {
  if (!steps.empty()) HWY_DYNAMIC_DISPATCH(point_steps_of)(planes, steps);
}

void blur_along_rows(const BlurPass& pass, const float* from, float* to, std::vector<float>& scratch) {
  scratch.resize(std::max(scratch.size(), static_cast<size_t>(pass.width + 2 * pass.taps.reach)));
  HWY_DYNAMIC_DISPATCH(blurred_rows)(pass, from, to, scratch.data());
}

void blur_along_columns(const BlurPass& pass, const float* from, float* to) {
  HWY_DYNAMIC_DISPATCH(blurred_columns)(pass, from, to);
}

void sharpen_inner(const SharpenPass& pass, const float* from, float* to) {
  HWY_DYNAMIC_DISPATCH(sharpened_rows)(pass, from, to);
}

void look_up(const std::array<float, 256>& table, std::span<float> levels) {
  HWY_DYNAMIC_DISPATCH(looked_up)(table, levels);
}

void finish_planes(const ColorPlanes& planes, const RenderJob& job) {
  HWY_DYNAMIC_DISPATCH(finished_rows_of)(planes, job);
}

}  // namespace penstock::detail
#endif  // HWY_ONCE
