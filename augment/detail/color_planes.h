// color_planes: a sample's levels as planes of f32 between sampling and finishing, for colour steps that must see the
// whole output (contrast, sharpness, auto-contrast, equalise).
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "augment/detail/render_job.h"

namespace penstock::detail {

/// f32, C x H x W without gaps, levels. Valid until the thread's next sample.
struct ColorPlanes {
  float* levels = nullptr;
  int channels = 0, height = 0, width = 0;

  size_t pixels() const { return static_cast<size_t>(height) * width; }
  float* plane(int channel) const { return levels + pixels() * channel; }
};

/// The mean grey level. Grey is clamped to 0..255 and summed in whole 1/128 levels, so that the sum does not depend on
/// the width of a vector.
float mean_grey(const ColorPlanes& planes);

struct Extremes {
  std::array<float, 3> least{}, greatest{};
};
Extremes extremes(const ColorPlanes& planes);

/// Every pixel through the steps, in place.
void apply_points(const ColorPlanes& planes, std::span<const PointStep> steps);

/// Every pixel through job.points and job.normalization into job.output; the sampling has been done.
void finish_planes(const ColorPlanes& planes, const RenderJob& job);

/// 3 x 3 blur (1 1 1, 1 5 1, 1 1 1) / 13 blended with the levels, the outermost pixels as they are.
void sharpen(const ColorPlanes& planes, float factor);

/// Levels rounded to whole ones, then each channel through the table that makes its histogram flat.
void equalize(const ColorPlanes& planes);

/// render() for a plan with colour steps: those that look at the picture split the work into passes over planes of the
/// output that fit in the L2 cache (602 KB at 224 x 224); without such a step the sampling pass does everything.
void render_colored(RenderJob job, int channels);

}  // namespace penstock::detail
