// Plan: composes edits.
#include "augment/plan/plan.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "augment/pixels/blur_taps.h"
#include "core/error.h"
#include "core/text.h"

namespace penstock {
namespace {

struct Span {
  int begin = 0, end = 0;
};

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
  if (new_height != height || new_width != width || !is_translation(edit) || edit.x0 != (mirrors_x ? width : 0) ||
      edit.y0 != (mirrors_y ? height : 0))
    throw bug_error(concat("plan: an edit of ", width, "x", height, " with a border of copies to ", new_width, "x",
                           new_height, ", by (", edit.x0, ", ", edit.y0, "); expected one that only mirrors it"));
  return {mirrors_x ? width - rect.x - rect.width : rect.x, mirrors_y ? height - rect.y - rect.height : rect.y,
          rect.width, rect.height};
}

void check_not_mixed(const Plan& plan, const char* edit) {
  if (plan.chains)
    throw bug_error(concat("plan: ", edit, " after ", plan.chains->size(), " chains; expected it before them"));
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
  check_not_mixed(*this, "a geometric edit");
  if (border != Border::kFill) inside = mirrored(*this, output_to_before, new_height, new_width);
  map = map.after(output_to_before);
  output_height = new_height;
  output_width = new_width;
}

void Plan::recolor(const std::array<std::array<float, 4>, 3>& edit) {
  check_not_mixed(*this, "a colour matrix");
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
         op == ColorOp::kEqualize || op == ColorOp::kGaussianBlur;
}

void Plan::adjust(const ColorStep& step) {
  check_not_mixed(*this, "a colour step");
  if (erased_count > 0)
    throw bug_error(concat("plan: a colour step after ", erased_count, " erased rectangles; expected it before them"));
  if (color_step_count == kMaxColorSteps)
    throw bug_error(concat("plan: ", kMaxColorSteps + 1, " colour steps; expected at most ", kMaxColorSteps));
  if (step.op == ColorOp::kGaussianBlur && !is_blur(step.amount, step.kernel))
    throw bug_error(concat("plan: a blur by ", step.amount, " with a kernel of ", step.kernel,
                           " pixels; expected up to ", kMaxBlurDeviation, ", and 0 or an odd number up to ",
                           kMaxBlurKernel));
  color_steps[color_step_count++] = step;
}

void Plan::mix(float own_share, std::vector<Chain> with) {
  check_not_mixed(*this, "a mixture");
  if (erased_count > 0)
    throw bug_error(concat("plan: a mixture after ", erased_count, " erased rectangles; expected it before them"));
  share = own_share;
  chains = std::make_shared<const std::vector<Chain>>(std::move(with));
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

bool is_translation(const Affine& map) {
  const auto is_whole = [](double v) { return v == static_cast<int>(v); };
  return map.xy == 0 && map.yx == 0 && std::fabs(map.xx) == 1 && std::fabs(map.yy) == 1 && std::fabs(map.x0) < 0x1p22 &&
         std::fabs(map.y0) < 0x1p22 && is_whole(map.x0) && is_whole(map.y0);
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
  // A box sees one or two of the decoded pixels where the picture still becomes up to twice as small: 32 dB against a
  // decode at full size, where the other filters have 41 to 45 (docs/TRANSFORMS.md).
  if (plan.filter == Filter::kAntialiasBox) return 8;
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

}  // namespace penstock
