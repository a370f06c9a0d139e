// footprint(): the extremes of a plan's map over the output, and the reach of its filter.
#include "augment/plan/footprint.h"

#include <algorithm>
#include <cmath>

#include "augment/plan/sampling.h"

namespace penstock {
namespace {

struct Span {
  int begin = 0, end = 0;
};

/// The pixels along one axis that sampling points at the continuous coordinates low..high may read, clipped to [0,
/// size). Nearest reads the pixel of the coordinate, bilinear two around it and bicubic four.
Span touched(double low, double high, Filter filter, int size) {
  const double half = filter == Filter::kNearest ? 0.0 : 0.5;
  const int before = filter == Filter::kBicubic ? 1 : 0, after = filter == Filter::kNearest ? 0 : before + 1;
  const double begin = std::floor(low - half) - before;
  const double end = std::floor(high - half) + 1 + after;
  const auto clipped = [&](double v) { return static_cast<int>(std::clamp(v, 0.0, static_cast<double>(size))); };
  return {clipped(begin), clipped(end)};
}

/// The pixels that a filter along the axes reads along one of them: from the first tap of the first output pixel to the
/// last tap of the last one.
Span filtered(const detail::Axis& axis) {
  const double first = axis.center(0), last = axis.center(axis.output_size - 1);
  const double low = std::min(first, last), high = std::max(first, last);
  if (high < 0 || low >= axis.input_size) return {};
  return {detail::tap_span(axis, low).begin, detail::tap_span(axis, high).end};
}

}  // namespace

Region footprint(const Plan& plan) {
  if (plan.output_height == 0 || plan.output_width == 0) return {};
  const Region& view = plan.view;
  const detail::SamplingAxes axes = detail::sampling_axes(plan);
  if (axes.are_filtered) {
    const Span x = filtered(axes.x), y = filtered(axes.y);
    if (x.begin >= x.end || y.begin >= y.end) return {};
    return {view.x + x.begin, view.y + y.begin, x.end - x.begin, y.end - y.begin};
  }
  const Affine m = Affine::translation(-view.x, -view.y).after(plan.map);
  const double right = plan.output_width - 0.5, bottom = plan.output_height - 0.5;
  // A linear function takes its extremes over the rectangle of pixel centres at the corners. render() rounds each term
  // and each sum to f32: four roundings, each of at most 2^-24 of the rounded value. 2^-21 of the sum of magnitudes is
  // twice that.
  const auto [x_low, x_high] = std::minmax(
      {0.5 * m.xx + 0.5 * m.xy, right * m.xx + 0.5 * m.xy, 0.5 * m.xx + bottom * m.xy, right * m.xx + bottom * m.xy});
  const auto [y_low, y_high] = std::minmax(
      {0.5 * m.yx + 0.5 * m.yy, right * m.yx + 0.5 * m.yy, 0.5 * m.yx + bottom * m.yy, right * m.yx + bottom * m.yy});
  const double x_slack = 0x1p-21 * (std::fabs(m.xx) * right + std::fabs(m.xy) * bottom + std::fabs(m.x0));
  const double y_slack = 0x1p-21 * (std::fabs(m.yx) * right + std::fabs(m.yy) * bottom + std::fabs(m.y0));
  const double x_min = x_low + m.x0 - x_slack, x_max = x_high + m.x0 + x_slack;
  const double y_min = y_low + m.y0 - y_slack, y_max = y_high + m.y0 + y_slack;
  if (x_max < 0 || y_max < 0 || x_min >= view.width || y_min >= view.height) return {};
  const Span x = touched(x_min, x_max, point_filter(plan.filter), view.width);
  const Span y = touched(y_min, y_max, point_filter(plan.filter), view.height);
  return {view.x + x.begin, view.y + y.begin, x.end - x.begin, y.end - y.begin};
}

}  // namespace penstock
