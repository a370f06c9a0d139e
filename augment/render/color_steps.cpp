// Colour steps of render(): decides which pass does which step, and has the steps that need more than single pixels.
#include "augment/render/color_steps.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "augment/kernels/color_rows.h"
#include "augment/pixels/blur_taps.h"
#include "augment/pixels/rounding.h"

namespace penstock::detail {
namespace {

/// A list of steps with room for all steps of a plan.
class PointSteps {
 public:
  void push(const PointStep& step) { steps_[count_++] = step; }
  void clear() { count_ = 0; }
  std::span<const PointStep> all() const { return {steps_.data(), count_}; }

 private:
  std::array<PointStep, Plan::kMaxColorSteps> steps_;
  size_t count_ = 0;
};

/// `amount` of the levels, and 1 - amount of another level.
PointStep blend(const ColorStep& step, float other) {
  const float factor = step.amount, offset = (1 - factor) * other;
  if (step.rounding == Rounding::kNone) return {.scale = {factor, factor, factor}, .offset = {offset, offset, offset}};
  return {.kind = PointStep::Kind::kBlend, .amount = factor, .other = other, .rounding = step.rounding};
}

/// Requires a step that does not look at the picture.
PointStep point_step(const ColorStep& step) {
  switch (step.op) {
    case ColorOp::kSaturation:
      return {.kind = PointStep::Kind::kSaturation, .amount = step.amount, .rounding = step.rounding};
    case ColorOp::kHue:
      return {.kind = PointStep::Kind::kHue, .amount = step.amount};
    case ColorOp::kPosterize:
      return {.kind = PointStep::Kind::kPosterize, .amount = step.amount};
    case ColorOp::kSolarize:
      return {.kind = PointStep::Kind::kSolarize, .amount = step.amount};
    case ColorOp::kSolarizeAdd:
      return {.kind = PointStep::Kind::kSolarizeAdd, .amount = step.amount};
    default:
      return blend(step, 0);
  }
}

PointStep contrast(const ColorPlanes& planes, const ColorStep& step) {
  return blend(step, mean_grey(planes, step.rounding));
}

/// A channel whose levels are all equal stays as it is.
PointStep auto_contrast(const ColorPlanes& planes) {
  const Extremes found = extremes(planes);
  PointStep step;
  for (int i = 0; i < planes.channels; ++i) {
    if (found.greatest[i] == found.least[i]) continue;
    step.scale[i] = 255 / (found.greatest[i] - found.least[i]);
    step.offset[i] = -found.least[i] * step.scale[i];
  }
  return step;
}

/// Through int32, which is one instruction: from a float to an unsigned number of 64 bits it is six with a branch.
size_t whole(float level) { return static_cast<size_t>(static_cast<int32_t>(level)); }

/// Requires whole levels, 0 to 255. Neighbours are often equal and are counted in four tables, because a count waits
/// for the one before it in the same place.
std::array<uint32_t, 256> histogram_of(std::span<const float> levels) {
  constexpr size_t kParts = 4;
  std::array<std::array<uint32_t, 256>, kParts> counts{};
  size_t i = 0;
  for (; i + kParts <= levels.size(); i += kParts)
    for (size_t part = 0; part < kParts; ++part) ++counts[part][whole(levels[i + part])];
  for (; i < levels.size(); ++i) ++counts[0][whole(levels[i])];
  for (size_t part = 1; part < kParts; ++part)
    for (size_t level = 0; level < 256; ++level) counts[0][level] += counts[part][level];
  return counts[0];
}

/// The table that torchvision and Pillow make from a histogram: the pixels below the greatest level that occurs are
/// spread evenly over 255 steps.
std::array<float, 256> flat_table(const std::array<uint32_t, 256>& histogram, uint64_t pixels) {
  int last = 255;
  while (histogram[last] == 0) --last;
  const uint64_t step = (pixels - histogram[last]) / 255;
  std::array<float, 256> table;
  uint64_t below = step / 2;  // the number of pixels of lower levels, plus half a step for rounding
  for (int level = 0; level < 256; ++level) {
    table[level] = step == 0 ? static_cast<float>(level) : static_cast<float>(std::min<uint64_t>(below / step, 255));
    below += histogram[level];
  }
  return table;
}

void round_levels(const ColorPlanes& planes) {
  const PointStep whole_levels{.kind = PointStep::Kind::kPosterize, .amount = 8};
  apply_points(planes, {&whole_levels, 1});
}

/// Writes the sampled levels to `planes`, after the colour matrix and job.points.
void sample(RenderJob job, const ColorPlanes& planes) {
  job.normalization = {.scale = {1, 1, 1}, .bias = {0, 0, 0}};
  job.layout = Layout::kF32Nchw;
  job.output = planes.levels;
  render_rows(job, planes.channels);
}

/// Rounds levels to whole numbers, then maps each channel so that its least level becomes 0 and its greatest 255, by
/// stretched_level(). A channel whose levels are all equal stays as it is. Requires a rounding.
void stretch(const ColorPlanes& planes, Rounding rounding) {
  round_levels(planes);
  const Extremes found = extremes(planes);
  std::array<float, 256> table;
  for (int channel = 0; channel < planes.channels; ++channel) {
    const float least = found.least[channel], greatest = found.greatest[channel];
    if (least == greatest) continue;
    for (int level = 0; level < 256; ++level) table[level] = stretched_level(level, least, greatest, rounding);
    look_up(table, {planes.plane(channel), planes.pixels()});
  }
}

/// Rounds levels to whole numbers, then maps each channel by the table that makes its histogram flat.
void equalize(const ColorPlanes& planes) {
  round_levels(planes);
  for (int channel = 0; channel < planes.channels; ++channel) {
    const std::span<float> levels(planes.plane(channel), planes.pixels());
    look_up(flat_table(histogram_of(levels), levels.size()), levels);
  }
}

/// Blends the levels with their 3 x 3 blur (1 1 1, 1 5 1, 1 1 1) / 13. The outermost pixels stay as they are.
/// With a rounding, levels are rounded before the blur and after it.
void sharpen(const ColorPlanes& planes, float factor, Rounding rounding) {
  thread_local std::vector<float> copy;  // grows to the largest plane seen
  if (rounding != Rounding::kNone) round_levels(planes);
  if (planes.height <= 2 || planes.width <= 2) return;
  for (int channel = 0; channel < planes.channels; ++channel) {
    float* const plane = planes.plane(channel);
    copy.assign(plane, plane + planes.pixels());
    sharpen_inner({factor, rounding, planes.height, planes.width}, copy.data(), plane);
  }
}

/// Blurs the levels (ColorOp::kGaussianBlur). Requires is_blur(deviation, kernel).
void blur(const ColorPlanes& planes, float deviation, int kernel) {
  thread_local std::vector<float> copy, scratch;  // grow to the largest plane and row seen
  const BlurTaps taps = blur_taps(kernel, blur_shape(deviation, kernel));
  const BlurPass pass{taps, blur_border(kernel), blur_rounds(kernel), planes.height, planes.width};
  copy.resize(planes.pixels());
  for (int channel = 0; channel < planes.channels; ++channel) {
    float *from = planes.plane(channel), *to = copy.data();  // they change places an even number of times
    for (int i = 0; i < blur_passes(kernel); ++i, std::swap(from, to)) blur_along_rows(pass, from, to, scratch);
    for (int i = 0; i < blur_passes(kernel); ++i, std::swap(from, to)) blur_along_columns(pass, from, to);
  }
}

/// Takes one step: it is appended to `points` or, when it looks at the picture, done on the planes after the points
/// before it.
void take(const ColorStep& step, const ColorPlanes& planes, PointSteps& points) {
  if (!looks_at_picture(step.op)) return points.push(point_step(step));
  apply_points(planes, points.all());
  points.clear();
  const bool is_whole = step.rounding != Rounding::kNone;
  if (step.op == ColorOp::kContrast) points.push(contrast(planes, step));
  if (step.op == ColorOp::kAutoContrast && !is_whole) points.push(auto_contrast(planes));
  if (step.op == ColorOp::kAutoContrast && is_whole) stretch(planes, step.rounding);
  if (step.op == ColorOp::kSharpness) sharpen(planes, step.amount, step.rounding);
  if (step.op == ColorOp::kEqualize) equalize(planes);
  if (step.op == ColorOp::kGaussianBlur) blur(planes, step.amount, step.kernel);
}

}  // namespace

void render_colored(RenderJob job, int channels) {
  const Plan& plan = *job.plan;
  const std::span<const ColorStep> steps(plan.color_steps.data(), static_cast<size_t>(plan.color_step_count));
  const auto first = std::find_if(steps.begin(), steps.end(), [](const auto& s) { return looks_at_picture(s.op); });
  PointSteps points;
  for (auto step = steps.begin(); step != first; ++step) points.push(point_step(*step));
  job.points = points.all();
  if (first == steps.end()) return render_rows(job, channels);

  thread_local std::vector<float> levels;  // grows to the largest output seen
  levels.resize(rendered_bytes(Layout::kF32Nchw, {plan.output_height, plan.output_width, channels}) / sizeof(float));
  if (levels.empty()) return;
  const ColorPlanes planes{levels.data(), channels, plan.output_height, plan.output_width};
  sample(job, planes);
  points.clear();
  for (auto step = first; step != steps.end(); ++step) take(*step, planes, points);
  job.points = points.all();
  job.is_recolored = false;  // sample() has done it
  finish_planes(planes, job);
}

}  // namespace penstock::detail
