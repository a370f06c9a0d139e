// color_planes: the levels of a sample as f32 planes, between sampling and finishing. They are for colour steps that
// must see the whole output (contrast, sharpness, blur, auto-contrast, equalise).
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "augment/blur_taps.h"
#include "augment/detail/render_job.h"

namespace penstock::detail {

/// Levels: f32, C x H x W without gaps, 0..255. Valid until the same thread renders its next sample.
struct ColorPlanes {
  float* levels = nullptr;
  int channels = 0, height = 0, width = 0;

  size_t pixels() const { return static_cast<size_t>(height) * width; }
  float* plane(int channel) const { return levels + pixels() * channel; }
};

/// The mean grey level. Each grey level is clamped to 0..255 and rounded to a multiple of 1/128 before it is summed, so
/// that the sum does not depend on the width of a vector. With a rounding they are whole, and with Pillow's the mean
/// is.
float mean_grey(const ColorPlanes& planes, Rounding rounding);

struct Extremes {
  std::array<float, 3> least{}, greatest{};
};
Extremes extremes(const ColorPlanes& planes);

/// Applies the steps to every pixel, in place.
void apply_points(const ColorPlanes& planes, std::span<const PointStep> steps);

/// Applies job.points and job.normalization to every pixel and writes the result to job.output in job.layout. Sampling
/// has been done before.
void finish_planes(const ColorPlanes& planes, const RenderJob& job);

/// Blends the levels with their 3 x 3 blur (1 1 1, 1 5 1, 1 1 1) / 13. The outermost pixels stay as they are.
/// With a rounding, levels are rounded before the blur and after it.
void sharpen(const ColorPlanes& planes, float factor, Rounding rounding);

/// What sharpen() does with the pixels of a plane of `height` x `width` levels that are not outermost: reads the levels
/// and their neighbours from one plane and writes to another. Requires three rows and columns or more.
struct SharpenPass {
  float factor = 1;
  Rounding rounding = Rounding::kNone;
  int height = 0, width = 0;
};
void sharpen_inner(const SharpenPass& pass, const float* from, float* to);

/// Replaces each level by that of the table. Requires whole levels, 0 to 255.
void look_up(const std::array<float, 256>& table, std::span<float> levels);

/// Rounds levels to whole numbers, then maps each channel so that its least level becomes 0 and its greatest 255, by
/// stretched_level(). A channel whose levels are all equal stays as it is. Requires a rounding.
void stretch(const ColorPlanes& planes, Rounding rounding);

/// Blurs the levels (ColorOp::kGaussianBlur). Requires is_blur(deviation, kernel).
void blur(const ColorPlanes& planes, float deviation, int kernel);

/// One pass of a blur along the rows or the columns of a plane of `height` x `width` levels, from one plane to another,
/// with a clamp to 0..255, and where it `rounds` to whole levels. `scratch` grows to the longest row with its border.
struct BlurPass {
  const BlurTaps& taps;
  Border border;
  bool rounds = false;
  int height = 0, width = 0;
};
void blur_along_rows(const BlurPass& pass, const float* from, float* to, std::vector<float>& scratch);
void blur_along_columns(const BlurPass& pass, const float* from, float* to);

/// Rounds levels to whole numbers, then maps each channel by the table that makes its histogram flat.
void equalize(const ColorPlanes& planes);

/// render() for a plan with colour steps. A step that looks at the picture splits the work into passes over planes of
/// the output, which fit in the L2 cache (602 KB at 224 x 224). Without such a step the sampling pass does everything.
void render_colored(RenderJob job, int channels);

}  // namespace penstock::detail
