// ColorPlanes: the levels of a sample as f32 planes, between sampling and finishing. They are for colour steps that
// must see the whole output (contrast, sharpness, blur, auto-contrast, equalise).
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "augment/kernels/render_job.h"
#include "augment/pixels/blur_taps.h"

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

}  // namespace penstock::detail
