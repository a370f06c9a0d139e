// Plan: composes edits, and computes the footprint that a decoder is asked for.
#include "augment/plan.h"

#include <algorithm>
#include <cmath>

#include "augment/detail/sampling.h"
#include "core/error.h"
#include "core/text.h"

namespace penstock {
namespace {

struct Span {
  int begin = 0, end = 0;
};

/// The pixels along one axis that sampling at the continuous coordinates low..high may read, clipped to [0, size).
Span touched(double low, double high, Filter filter, int size) {
  const double half = filter == Filter::kNearest ? 0.0 : 0.5;
  const double begin = std::floor(low - half);
  const double end = std::floor(high - half) + 1 + (filter == Filter::kNearest ? 0 : 1);
  const auto clipped = [&](double v) { return static_cast<int>(std::clamp(v, 0.0, static_cast<double>(size))); };
  return {clipped(begin), clipped(end)};
}

/// The pixels that kAntialias reads along an axis: from the first tap of the first output pixel to the last tap of the
/// last one.
Span filtered(const detail::Axis& axis) {
  const double first = axis.center(0), last = axis.center(axis.output_size - 1);
  const double low = std::min(first, last), high = std::max(first, last);
  if (high < 0 || low >= axis.input_size) return {};
  return {detail::tap_span(axis, low).begin, detail::tap_span(axis, high).end};
}

/// The pixels that low..high covers wholly or in part, clipped to `limits`. A border that is within 1e-6 of a pixel's
/// border counts as that one, because it comes from products of ratios that are not exact.
Span covered(double low, double high, Span limits) {
  const auto clipped = [&](double v) {
    return static_cast<int>(std::clamp(v, static_cast<double>(limits.begin), static_cast<double>(limits.end)));
  };
  const int begin = clipped(std::floor(low + 1e-6));
  return {begin, std::max(begin, clipped(std::ceil(high - 1e-6)))};
}

/// Whether an axis of the output with the pixels [0, size) shows each pixel that its border copies: the whole picture,
/// which has the pixels [begin, end), or a part of it with a border on one side.
bool shows_copied(Border border, int begin, int end, int size) {
  if (begin >= end) return false;
  if (begin >= 0 && end <= size) return true;
  const int widest = std::max(begin, size - end);  // the other side is cut, or both are
  return widest <= widest_border(border, size);
}

/// Where the plan's `inside` lies after an edit that mirrors the whole output.
Region mirrored(const Plan& plan, const Affine& edit, int new_height, int new_width) {
  const Region& rect = plan.inside;
  const int height = plan.output_height, width = plan.output_width;
  const bool mirrors_x = edit.xx < 0, mirrors_y = edit.yy < 0;
  if (new_height != height || new_width != width || !detail::is_translation(edit) ||
      edit.x0 != (mirrors_x ? width : 0) || edit.y0 != (mirrors_y ? height : 0))
    throw bug_error(concat("plan: an edit of ", width, "x", height, " with a border of copies to ", new_width, "x",
                           new_height, ", by (", edit.x0, ", ", edit.y0, "); expected one that only mirrors it"));
  return {mirrors_x ? width - rect.x - rect.width : rect.x, mirrors_y ? height - rect.y - rect.height : rect.y,
          rect.width, rect.height};
}

}  // namespace

Affine Affine::after(const Affine& first) const {
  return {xx * first.xx + xy * first.yx, xx * first.xy + xy * first.yy, xx * first.x0 + xy * first.y0 + x0,
          yx * first.xx + yy * first.yx, yx * first.xy + yy * first.yy, yx * first.x0 + yy * first.y0 + y0};
}

Plan Plan::identity(int height, int width) {
  Plan plan;
  plan.input_height = plan.output_height = height;
  plan.input_width = plan.output_width = width;
  plan.view = {0, 0, width, height};
  return plan;
}

Plan Plan::upright(int orientation, int stored_height, int stored_width) {
  Plan plan = identity(stored_height, stored_width);
  const bool turns = orientation >= 5 && orientation <= 8;
  plan.resample(orientation_map(orientation, stored_height, stored_width), turns ? stored_width : stored_height,
                turns ? stored_height : stored_width);
  return plan;
}

void Plan::look_only_at(const Region& rect) {
  if (!axes_of(map).are_kept) return;
  const double right = static_cast<double>(rect.x) + rect.width, bottom = static_cast<double>(rect.y) + rect.height;
  const double x1 = map.xx * rect.x + map.xy * rect.y + map.x0, x2 = map.xx * right + map.xy * bottom + map.x0;
  const double y1 = map.yx * rect.x + map.yy * rect.y + map.y0, y2 = map.yx * right + map.yy * bottom + map.y0;
  const Span x = covered(std::min(x1, x2), std::max(x1, x2), {view.x, view.x + view.width});
  const Span y = covered(std::min(y1, y2), std::max(y1, y2), {view.y, view.y + view.height});
  view = {x.begin, y.begin, x.end - x.begin, y.end - y.begin};
}

void Plan::repeat_around(const Region& picture, Border with) {
  if (border != Border::kFill)
    throw bug_error(concat("plan: a second border, around ", picture.width, "x", picture.height, "; expected one"));
  if (with == Border::kFill || !shows_copied(with, picture.x, picture.x + picture.width, output_width) ||
      !shows_copied(with, picture.y, picture.y + picture.height, output_height))
    throw bug_error(concat("plan: a border around ", picture.width, "x", picture.height, " at (", picture.x, ", ",
                           picture.y, ") of ", output_width, "x", output_height,
                           "; expected every copied pixel in the output"));
  border = with;
  inside = picture;
}

void Plan::resample(const Affine& output_to_before, int new_height, int new_width) {
  if (border != Border::kFill) inside = mirrored(*this, output_to_before, new_height, new_width);
  map = map.after(output_to_before);
  output_height = new_height;
  output_width = new_width;
}

void Plan::recolor(const std::array<std::array<float, 4>, 3>& edit) {
  if (color_step_count > 0)
    throw bug_error(concat("plan: a colour matrix after ", color_step_count, " colour steps; expected it before them"));
  const auto before = color;
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 4; ++j) {
      color[i][j] = edit[i][0] * before[0][j] + edit[i][1] * before[1][j] + edit[i][2] * before[2][j];
    }
    color[i][3] += edit[i][3];
  }
  // A rectangle that was erased earlier is part of the picture that this edit recolours.
  for (int k = 0; k < erased_count; ++k) {
    const auto level = erased[k].level;
    for (int i = 0; i < 3; ++i)
      erased[k].level[i] = edit[i][0] * level[0] + edit[i][1] * level[1] + edit[i][2] * level[2] + edit[i][3];
  }
}

bool looks_at_picture(ColorOp op) {
  return op == ColorOp::kContrast || op == ColorOp::kSharpness || op == ColorOp::kAutoContrast ||
         op == ColorOp::kEqualize;
}

void Plan::adjust(ColorOp op, float amount) {
  if (erased_count > 0)
    throw bug_error(concat("plan: a colour step after ", erased_count, " erased rectangles; expected it before them"));
  if (color_step_count == kMaxColorSteps)
    throw bug_error(concat("plan: ", kMaxColorSteps + 1, " colour steps; expected at most ", kMaxColorSteps));
  color_steps[color_step_count++] = {op, amount};
}

void Plan::erase(const ErasedRect& rect) {
  if (erased_count == kMaxErased)
    throw bug_error(concat("plan: ", kMaxErased + 1, " erased rectangles; expected at most ", kMaxErased));
  erased[erased_count++] = rect;
}

Axes axes_of(const Affine& map) {
  if (map.xy == 0 && map.yx == 0) return {.are_kept = true, .turns = false};
  if (map.xx == 0 && map.yy == 0) return {.are_kept = true, .turns = true};
  return {};
}

bool samples_points(const Plan& plan) {
  return !detail::sampling_axes(plan).are_filtered || detail::is_translation(plan.map);
}

Affine orientation_map(int orientation, int stored_height, int stored_width) {
  const double height = stored_height, width = stored_width;
  switch (orientation) {
    case 2:  // mirrored left and right
      return {-1, 0, width, 0, 1, 0};
    case 3:  // turned by 180 degrees
      return {-1, 0, width, 0, -1, height};
    case 4:  // mirrored top and bottom
      return {1, 0, 0, 0, -1, height};
    case 5:  // transposed
      return {0, 1, 0, 1, 0, 0};
    case 6:  // stored so that it must be turned clockwise
      return {0, 1, 0, -1, 0, height};
    case 7:  // transposed about the other diagonal
      return {0, -1, width, -1, 0, height};
    case 8:  // stored so that it must be turned counterclockwise
      return {0, -1, width, 1, 0, 0};
    default:
      return {};
  }
}

int dct_scale(const Plan& plan) {
  const Affine& m = plan.map;
  // For a 2 x 2 matrix with singular values s >= t, s^2 + t^2 is the sum of the squared elements and s * t is
  // |determinant|.
  const double squares = m.xx * m.xx + m.xy * m.xy + m.yx * m.yx + m.yy * m.yy;
  const double product = std::fabs(m.xx * m.yy - m.xy * m.yx);
  const double larger = std::sqrt((squares + std::sqrt(std::max(squares * squares - 4 * product * product, 0.0))) / 2);
  const double smaller = larger == 0 ? 0 : product / larger;
  // For a rotated map of scale exactly 2, rounding may make the value slightly less than 2.
  for (const int scale : {1, 2, 4})
    if (smaller * scale >= 8 * (1 - 1e-9)) return scale;
  return 8;
}

Plan at_dct_scale(const Plan& plan, int scale) {
  const auto decoded = [&](int size) { return static_cast<int>((static_cast<int64_t>(size) * scale + 7) / 8); };
  Plan scaled = plan;
  scaled.input_height = decoded(plan.input_height);
  scaled.input_width = decoded(plan.input_width);
  scaled.map = Affine::scaling(scale / 8.0, scale / 8.0).after(plan.map);
  const Region& view = plan.view;
  if (view.width == 0 || view.height == 0) return scaled;
  const int left = view.x * scale / 8, top = view.y * scale / 8;
  scaled.view = {left, top, decoded(view.x + view.width) - left, decoded(view.y + view.height) - top};
  return scaled;
}

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
  const Span x = touched(x_min, x_max, plan.filter, view.width);
  const Span y = touched(y_min, y_max, plan.filter, view.height);
  return {view.x + x.begin, view.y + y.begin, x.end - x.begin, y.end - y.begin};
}

}  // namespace penstock
