// render(): checks, the colour of what lies outside, erased rectangles; the rows themselves are render_rows.cpp's.
#include "augment/render.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "augment/detail/color_planes.h"
#include "augment/detail/render_job.h"
#include "core/error.h"
#include "core/text.h"

namespace penstock {
namespace {

using detail::RenderJob;

constexpr std::array<std::array<float, 4>, 3> kSameColor{{{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}}};

void check(const Picture& picture, const Plan& plan) {
  if (picture.channels != 1 && picture.channels != 3)
    throw bug_error(concat("render: a picture of ", picture.channels, " channels; expected 1 or 3"));
  const Region needed = footprint(plan);
  if (needed.width == 0 || needed.height == 0) return;
  if (needed.x < picture.x || needed.y < picture.y || needed.x + needed.width > picture.x + picture.width ||
      needed.y + needed.height > picture.y + picture.height) {
    throw bug_error(concat("render: the picture is ", picture.width, "x", picture.height, " at (", picture.x, ", ",
                           picture.y, "); expected it to cover the plan's footprint ", needed.width, "x", needed.height,
                           " at (", needed.x, ", ", needed.y, ")"));
  }
}

/// `level` through the colour matrix, with the roundings of the SIMD rows.
std::array<float, 3> recolored(const Plan& plan, const std::array<float, 3>& level, int channels) {
  const auto& m = plan.color;
  if (channels == 1) return {level[0] * m[0][0] + m[0][3]};
  std::array<float, 3> out{};
  for (int i = 0; i < 3; ++i) out[i] = ((level[0] * m[i][0] + level[1] * m[i][1]) + level[2] * m[i][2]) + m[i][3];
  return out;
}

void erase(const ErasedRect& rect, const RenderJob& job, int channels, Layout layout) {
  const int height = job.plan->output_height, width = job.plan->output_width;
  const int top = std::max(rect.top, 0), bottom = std::min(rect.bottom, height);
  const int left = std::max(rect.left, 0), right = std::min(rect.right, width);
  for (int channel = 0; channel < channels; ++channel) {
    if (layout == Layout::kF32Nchw) {
      const float value = rect.level[channel] * job.normalization.scale[channel] + job.normalization.bias[channel];
      float* plane = static_cast<float*>(job.output) + static_cast<ptrdiff_t>(channel) * height * width;
      for (int row = top; row < bottom; ++row)
        for (int column = left; column < right; ++column) plane[static_cast<ptrdiff_t>(row) * width + column] = value;
    } else {
      const auto value = static_cast<uint8_t>(std::nearbyint(std::clamp(rect.level[channel], 0.f, 255.f)));
      uint8_t* first = static_cast<uint8_t*>(job.output) + channel;
      for (int row = top; row < bottom; ++row)
        for (int column = left; column < right; ++column)
          first[(static_cast<ptrdiff_t>(row) * width + column) * channels] = value;
    }
  }
}

}  // namespace

Normalization Normalization::of(std::array<double, 3> mean, std::array<double, 3> deviation) {
  Normalization normalization;
  for (int i = 0; i < 3; ++i) {
    normalization.scale[i] = static_cast<float>(1 / (255 * deviation[i]));
    normalization.bias[i] = static_cast<float>(-mean[i] / deviation[i]);
  }
  return normalization;
}

size_t rendered_bytes(Layout layout, const Extent& output) {
  return static_cast<size_t>(output.height) * output.width * output.channels *
         (layout == Layout::kF32Nchw ? sizeof(float) : sizeof(uint8_t));
}

void render(const Picture& picture, const Plan& plan, const Normalization& normalization, Layout layout, void* output) {
  check(picture, plan);
  const bool is_empty = picture.height == 0 || picture.width == 0;
  const int64_t byte_count = is_empty ? 0
                                      : static_cast<int64_t>(picture.height - 1) * picture.row_stride +
                                            static_cast<int64_t>(picture.width) * picture.channels;
  if (byte_count > INT32_MAX || picture.row_stride < 0 || picture.row_stride > INT32_MAX)
    throw bug_error(concat("render: a picture of ", byte_count, " bytes in rows of ", picture.row_stride,
                           "; expected rows downwards and less than 2^31 bytes"));
  RenderJob job{.pixels = picture.pixels,
                .row_stride = picture.row_stride,
                .window_x = picture.x,
                .window_y = picture.y,
                .plan = &plan,
                .is_recolored = plan.color != kSameColor,
                .fill_level = plan.fill,
                .normalization = normalization,
                .output = output};
  std::array<uint8_t, 4> whole_picture{};  // pixels are fetched 4 bytes at a time, and this one has not got 4
  if (byte_count < 4) {
    if (byte_count > 0) std::memcpy(whole_picture.data(), picture.pixels, static_cast<size_t>(byte_count));
    job.pixels = whole_picture.data();
  } else {
    job.last_word = static_cast<uint32_t>(byte_count - 4);
  }
  if (job.is_recolored) job.fill_level = recolored(plan, plan.fill, picture.channels);
  if (plan.color_step_count == 0)
    detail::render_rows(job, picture.channels, layout);
  else
    detail::render_colored(job, picture.channels, layout);
  for (int i = 0; i < plan.erased_count; ++i) erase(plan.erased[i], job, picture.channels, layout);
}

}  // namespace penstock
