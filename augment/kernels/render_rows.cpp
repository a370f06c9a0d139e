// The rows of render() in Highway SIMD, compiled once for each instruction set. The best set is chosen at run time.
//
// There are five kinds of rows. translated_rows() copies (shift, flip, centre crop: every output pixel's centre falls
// on a pixel's centre), resized_rows() samples along the axes, and mapped_rows() computes coordinates and gathers.
// Where several of these three apply, they give the same bits. The others are the filters along the axes:
// filtered_rows() those without negative weights, lobed_rows() bicubic and lanczos.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "augment/kernels/render_rows.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.h
#include "augment/kernels/render_filtered-inl.h"
#include "augment/kernels/render_job.h"
#include "augment/kernels/render_lanes-inl.h"
#include "augment/kernels/render_lobed-inl.h"
#include "augment/kernels/render_resized-inl.h"
#include "augment/kernels/turned_job.h"
#include "augment/plan/sampling.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace penstock::detail::HWY_NAMESPACE {

/// For any affine map. x = xx * (column + 0.5) + (xy * (row + 0.5) + x0), where the term in brackets is computed in f64
/// and rounded once to f32; the outer product and sum are f32.
template <int kChannels, Filter kFilter, Store kStore>
HWY_NOINLINE void mapped_rows(const RenderJob& job) {
  const D d;
  const Affine& map = job.plan->map;
  const int width = job.plan->output_width;
  const Sampler<kChannels, kFilter> sampler(job);
  const Finisher<kChannels, kStore> finisher(job);
  const V xx = hn::Set(d, static_cast<float>(map.xx)), yx = hn::Set(d, static_cast<float>(map.yx));
  const V half_iota = hn::Iota(d, 0.5f);
  for (int row = 0; row < job.plan->output_height; ++row) {
    const V row_x = hn::Set(d, static_cast<float>(map.xy * (row + 0.5) + map.x0));
    const V row_y = hn::Set(d, static_cast<float>(map.yy * (row + 0.5) + map.y0));
    for_each_vector(0, width, [&](int column, int count) HWY_ATTR {
      const V center = hn::Add(half_iota, hn::Set(d, static_cast<float>(column)));
      const V x = hn::Add(hn::Mul(center, xx), row_x);
      const V y = hn::Add(hn::Mul(center, yx), row_y);
      finisher.put(sampler(x, y), row, column, count);
    });
    finisher.end_row(row);
  }
}

/// For maps that mirror and shift by whole pixels. Output column c reads picture column x0 + c or, mirrored, x0 - 1 -
/// c.
template <int kChannels, Store kStore>
HWY_NOINLINE void translated_rows(const RenderJob& job) {
  const Plan& plan = *job.plan;
  const bool mirrors_x = plan.map.xx < 0, mirrors_y = plan.map.yy < 0;
  const int x0 = static_cast<int>(plan.map.x0), y0 = static_cast<int>(plan.map.y0);
  const Finisher<kChannels, kStore> finisher(job);
  // The output columns [begin, end) lie inside of the picture.
  const int begin = std::clamp(mirrors_x ? x0 - plan.input_width : -x0, 0, plan.output_width);
  const int end = std::clamp(mirrors_x ? x0 : plan.input_width - x0, begin, plan.output_width);
  for (int row = 0; row < plan.output_height; ++row) {
    const int y = mirrors_y ? y0 - 1 - row : y0 + row;
    if (y < 0 || y >= plan.input_height || begin == end) {
      finisher.fill(row, 0, plan.output_width);
      finisher.end_row(row);
      continue;
    }
    finisher.fill(row, 0, begin);
    const uint8_t* line = job.pixels + (y - job.window_y) * job.row_stride - job.window_x * kChannels;
    for_each_vector(begin, end, [&](int column, int count) HWY_ATTR {
      const int x = mirrors_x ? x0 - column - count : x0 + column;
      Levels<kChannels> levels = load_levels<kChannels>(line + static_cast<ptrdiff_t>(x) * kChannels, count);
      if (mirrors_x) {
        // In a vector that is not full, only the first `count` lanes are reversed.
        for (V& level : levels.channel) level = count == kLanes ? hn::Reverse(D(), level) : reverse_part(level, count);
      }
      finisher.put(levels, row, column, count);
    });
    finisher.fill(row, end, plan.output_width);
    finisher.end_row(row);
  }
}

/// Whether the map is along the axes and its reduction is at most 4. With a stronger reduction most of a mixed line
/// would never be used.
bool is_resize(const Affine& m) { return m.xy == 0 && m.yx == 0 && std::fabs(m.xx) <= 4; }

template <int kChannels, Store kStore>
void rows_along_axes(const RenderJob& job, const SamplingAxes& axes) {
  if (has_lobes(axes.x.kernel)) return lobed_rows<kChannels, kStore>(job, axes);
  filtered_rows<kChannels, kStore>(job, axes);
}

template <int kChannels, Store kStore>
void rows(const RenderJob& job) {
  if (is_translation(job.plan->map)) return translated_rows<kChannels, kStore>(job);
  if (job.plan->filter == Filter::kNearest) return mapped_rows<kChannels, Filter::kNearest, kStore>(job);
  const SamplingAxes axes = sampling_axes(*job.plan);
  if (axes.are_filtered && !axes.turns) return rows_along_axes<kChannels, kStore>(job, axes);
  if (axes.are_filtered) return rows_along_axes<kChannels, kStore>(TurnedJob(job, kChannels).job, turned(axes));
  if (point_filter(job.plan->filter) == Filter::kBicubic) return mapped_rows<kChannels, Filter::kBicubic, kStore>(job);
  if (is_resize(job.plan->map)) return resized_rows<kChannels, kStore>(job);
  return mapped_rows<kChannels, Filter::kBilinear, kStore>(job);
}

void render_rows(const RenderJob& job, int channels) {
  const bool is_planes = job.layout != Layout::kU8Nhwc;
  if (channels == 1) return is_planes ? rows<1, Store::kPlanes>(job) : rows<1, Store::kBytes>(job);
  return is_planes ? rows<3, Store::kPlanes>(job) : rows<3, Store::kBytes>(job);
}

}  // namespace penstock::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "augment/kernels/border_copies.h"
#include "core/error.h"
#include "core/text.h"

namespace penstock {

std::vector<std::string> render_targets() {
  std::vector<std::string> names;
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) names.emplace_back(hwy::TargetName(target));
  return names;
}

namespace detail {

HWY_EXPORT(render_rows);

void render_rows(const RenderJob& job, int channels) {
  HWY_DYNAMIC_DISPATCH(render_rows)(job, channels);
  copy_into_border(job, channels);
}

RenderScratch& render_scratch() {
  thread_local RenderScratch scratch;
  return scratch;
}

void force_render_target(const std::string& name) {
  hwy::SetSupportedTargetsForTest(0);
  int64_t forced = 0;
  for (const int64_t target : hwy::SupportedAndGeneratedTargets())
    if (name == hwy::TargetName(target)) forced = target;
  if (!name.empty() && forced == 0)
    throw bug_error(
        concat("force_render_target: ", in_quotes(name), " is not here; expected one of ", join(render_targets())));
  hwy::SetSupportedTargetsForTest(forced);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace detail
}  // namespace penstock
#endif  // HWY_ONCE
