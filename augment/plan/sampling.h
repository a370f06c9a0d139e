// sampling: decides how the pixels of a plan are found, in one place for both footprint() and render().
#pragma once

#include <utility>

#include "augment/pixels/tap_weights.h"
#include "augment/plan/plan.h"

namespace penstock::detail {

/// The same plan for the view as a picture of its own: coordinates are counted from the view's upper left corner.
inline Plan seen_from_view(const Plan& plan) {
  Plan seen = plan;
  seen.map = Affine::translation(-plan.view.x, -plan.view.y).after(plan.map);
  seen.input_height = plan.view.height;
  seen.input_width = plan.view.width;
  seen.view = {0, 0, plan.view.width, plan.view.height};
  return seen;
}

/// How the view is sampled along its columns (x) and rows (y). Each axis names the side of the output that runs along
/// it.
struct SamplingAxes {
  bool are_filtered = false;  // sampled by taps along each axis; otherwise point by point
  bool turns = false;         // x runs along the output's rows and y along its columns
  Axis x, y;
};

/// Whether the filter weighs the pixels along each axis, where the map is along the axes.
constexpr bool is_along_axes(Filter filter) { return filter > Filter::kBicubic; }

/// Requires is_along_axes().
constexpr TapKernel tap_kernel(Filter filter) {
  return filter == Filter::kAntialiasBox       ? TapKernel::kBox
         : filter == Filter::kAntialiasHamming ? TapKernel::kHamming
         : filter == Filter::kAntialias        ? TapKernel::kTriangle
         : filter == Filter::kAntialiasBicubic ? TapKernel::kBicubic
                                               : TapKernel::kLanczos;
}

inline SamplingAxes sampling_axes(const Plan& plan) {
  const Axes axes = axes_of(plan.map);
  if (!is_along_axes(plan.filter) || !axes.are_kept) return {};
  const Affine m = Affine::translation(-plan.view.x, -plan.view.y).after(plan.map);
  const auto [x_output, y_output] =
      axes.turns ? std::pair(plan.output_height, plan.output_width) : std::pair(plan.output_width, plan.output_height);
  return {.are_filtered = true,
          .turns = axes.turns,
          .x = {axes.turns ? m.xy : m.xx, m.x0, plan.view.width, x_output, tap_kernel(plan.filter)},
          .y = {axes.turns ? m.yx : m.yy, m.y0, plan.view.height, y_output, tap_kernel(plan.filter)}};
}

}  // namespace penstock::detail
