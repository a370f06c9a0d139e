// render(): checks its arguments, computes the fill's colour and writes erased rectangles. render_rows.cpp renders the
// rows.
#include "augment/render.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "augment/draws/normal_noise.h"
#include "augment/kernels/border_copies.h"
#include "augment/kernels/render_job.h"
#include "augment/kernels/render_raster.h"
#include "augment/pixels/half.h"
#include "augment/pixels/rounding.h"
#include "augment/plan/footprint.h"
#include "augment/plan/sampling.h"
#include "augment/render/color_steps.h"
#include "core/error.h"
#include "core/text.h"

namespace penstock {
namespace {

using detail::RenderJob;

std::array<float, 3> first_three(const PerChannel<float>& values) { return {values[0], values[1], values[2]}; }

constexpr std::array<std::array<float, 4>, 3> kSameColor{{{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}}};

bool covers(const Picture& picture, const Region& region) {
  return picture.x <= region.x && picture.y <= region.y && region.x + region.width <= picture.x + picture.width &&
         region.y + region.height <= picture.y + picture.height;
}

void check(const Picture& picture, const Plan& plan) {
  // The footprint lies in the view. It is computed for a part of the view only: for an MNIST sample it takes 400 of
  // 10,500 instructions.
  if (covers(picture, plan.view)) return;
  const Region needed = footprint(plan);
  if (needed.width == 0 || needed.height == 0) return;
  if (!covers(picture, needed)) {
    throw bug_error(concat("render: the picture is ", picture.width, "x", picture.height, " at (", picture.x, ", ",
                           picture.y, "); expected it to cover the plan's footprint ", needed.width, "x", needed.height,
                           " at (", needed.x, ", ", needed.y, ")"));
  }
}

/// `level` after the colour matrix, rounded in the same steps as in the SIMD rows.
std::array<float, 3> recolored(const Plan& plan, const std::array<float, 3>& level, int channels) {
  const auto& m = plan.color;
  if (channels == 1) return {level[0] * m[0][0] + m[0][3]};
  std::array<float, 3> out{};
  for (int i = 0; i < 3; ++i) out[i] = ((level[0] * m[i][0] + level[1] * m[i][1]) + level[2] * m[i][2]) + m[i][3];
  return out;
}

/// One element of the output, of a value that is `level` before it is normalised. Its first element_bytes() bytes are
/// used.
uint32_t element_of(float value, float level, Layout layout) {
  switch (layout) {
    case Layout::kF32Nchw:
    case Layout::kF32Nhwc:
      return std::bit_cast<uint32_t>(value);
    case Layout::kF16Nchw:
    case Layout::kF16Nhwc:
      return detail::f16_bits(value);
    case Layout::kBf16Nchw:
    case Layout::kBf16Nhwc:
      return detail::bf16_bits(value);
    case Layout::kU16Nhwc:
      return static_cast<uint32_t>(std::nearbyint(std::clamp(level, 0.f, 65535.f)));
    case Layout::kU8Nhwc:
      break;
  }
  return static_cast<uint32_t>(std::nearbyint(std::clamp(level, 0.f, 255.f)));
}

uint32_t element(float level, float scale, float bias, Layout layout) {
  return element_of(level * scale + bias, level, layout);
}

void erase_with_noise(const ErasedRect& rect, const RenderJob& job, const Normalization& normalization, int channels) {
  const int height = job.plan->output_height, width = job.plan->output_width;
  const size_t bytes = element_bytes(job.layout), count = static_cast<size_t>(height) * static_cast<size_t>(width);
  const size_t pixel_step = is_planar(job.layout) ? 1 : static_cast<size_t>(channels);
  const size_t channel_step = is_planar(job.layout) ? count : 1;
  for (int row = std::max(rect.top, 0); row < std::min(rect.bottom, height); ++row) {
    for (int column = std::max(rect.left, 0); column < std::min(rect.right, width); ++column) {
      const size_t pixel = static_cast<size_t>(row) * static_cast<size_t>(width) + static_cast<size_t>(column);
      detail::PixelNoise noise(*rect.noise_key, rect.is_one_color ? 0 : static_cast<uint32_t>(pixel));
      for (int channel = 0; channel < channels; ++channel) {
        const float value = noise(channel);
        const uint32_t element =
            element_of(value, (value - normalization.bias[channel]) / normalization.scale[channel], job.layout);
        const size_t at = (pixel * pixel_step + static_cast<size_t>(channel) * channel_step) * bytes;
        std::memcpy(static_cast<uint8_t*>(job.output) + at, &element, bytes);
      }
    }
  }
}

void erase(const ErasedRect& rect, const RenderJob& job, const Normalization& normalization, int channels) {
  if (rect.noise_key) return erase_with_noise(rect, job, normalization, channels);
  const int height = job.plan->output_height, width = job.plan->output_width;
  const int top = std::max(rect.top, 0), bottom = std::min(rect.bottom, height);
  const int left = std::max(rect.left, 0), right = std::min(rect.right, width);
  const size_t bytes = element_bytes(job.layout);
  const ptrdiff_t pixel_step = is_planar(job.layout) ? 1 : channels;
  const ptrdiff_t channel_step = is_planar(job.layout) ? static_cast<ptrdiff_t>(height) * width : 1;
  for (int channel = 0; channel < channels; ++channel) {
    const uint32_t value = element(rect.level[channels > 3 ? 0 : channel], normalization.scale[channel],
                                   normalization.bias[channel], job.layout);
    for (int row = top; row < bottom; ++row) {
      const ptrdiff_t line = static_cast<ptrdiff_t>(row) * width * pixel_step + channel * channel_step;
      for (int column = left; column < right; ++column) {
        const size_t at = static_cast<size_t>(line + column * pixel_step) * bytes;
        std::memcpy(static_cast<uint8_t*>(job.output) + at, &value, bytes);
      }
    }
  }
}

void erase_all(const RenderJob& job, const Normalization& normalization, int channels) {
  for (int i = 0; i < job.plan->erased_count; ++i) erase(job.plan->erased[i], job, normalization, channels);
}

/// render() for a raster. Not inlined, so that the path of pictures of u8 stays as short as it was.
[[gnu::noinline]] void render_raster(Picture picture, const Plan& whole_plan, const Normalization& normalization,
                                     Layout layout, void* output) {
  if (picture.channels < 1 || picture.channels > kMaxChannels)
    throw bug_error(concat("render: a picture of ", picture.channels, " channels; expected 1 to ", kMaxChannels));
  check(picture, whole_plan);
  const Plan plan = detail::seen_from_view(whole_plan);
  picture.x -= whole_plan.view.x;
  picture.y -= whole_plan.view.y;
  const bool has_own_type = layout == (picture.type == PixelType::kU8 ? Layout::kU8Nhwc : Layout::kU16Nhwc);
  if (plan.color != kSameColor || plan.color_step_count > 0 || plan.chains || (has_levels(layout) && !has_own_type) ||
      (has_levels(layout) && picture.type == PixelType::kF32))
    throw bug_error(concat("render: a picture of ", pixels_text(picture.type, picture.channels), " with ",
                           plan.color_step_count, " colour steps to ", layout_name(layout),
                           "; expected no colours, and a layout of floats or of its own type"));
  detail::render_raster(picture, plan, normalization, layout, output);
  const RenderJob job{.plan = &plan, .layout = layout, .output = output};
  detail::copy_into_border(job, picture.channels);
  erase_all(job, normalization, picture.channels);
}

/// render() for a plan whose view is the whole picture.
void render_view(const Picture& picture, const Plan& plan, const Normalization& normalization, Layout layout,
                 void* output) {
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
                .normalization = {first_three(normalization.scale), first_three(normalization.bias)},
                .layout = layout,
                .output = output};
  // Pixels are fetched 4 bytes at a time; a picture of fewer than 4 bytes is copied here.
  std::array<uint8_t, 4> whole_picture{};
  if (byte_count < 4) {
    if (byte_count > 0) std::memcpy(whole_picture.data(), picture.pixels, static_cast<size_t>(byte_count));
    job.pixels = whole_picture.data();
  } else {
    job.last_word = static_cast<uint32_t>(byte_count - 4);
  }
  if (job.is_recolored) job.fill_level = recolored(plan, plan.fill, picture.channels);
  if (plan.color_step_count == 0)
    detail::render_rows(job, picture.channels);
  else
    detail::render_colored(job, picture.channels);
  erase_all(job, normalization, picture.channels);
}

/// The levels that a plan without chains gives, H x W x C, in `levels`, which grows to the largest output seen.
Picture render_levels(const Picture& picture, const Plan& plan, std::vector<uint8_t>& levels) {
  const Extent extent{plan.output_height, plan.output_width, picture.channels};
  levels.resize(std::max(levels.size(), rendered_bytes(Layout::kU8Nhwc, extent)));
  render(picture, plan, {}, Layout::kU8Nhwc, levels.data());
  return {.pixels = levels.data(),
          .row_stride = static_cast<ptrdiff_t>(extent.width) * extent.channels,
          .height = extent.height,
          .width = extent.width,
          .channels = extent.channels};
}

/// render() for a plan with chains. As in torchvision's AugMix on u8, the picture and the end of each chain are whole
/// levels, their shares are added up in f32, and the sum is cut to whole levels.
[[gnu::noinline]] void render_mixed(const Picture& picture, const Plan& plan, const Normalization& normalization,
                                    Layout layout, void* output) {
  thread_local std::vector<uint8_t> base_levels;
  thread_local std::array<std::vector<uint8_t>, 2> stage_levels;  // of a stage and of the next one
  thread_local std::vector<float> sums;
  Plan base = plan, last = Plan::identity(plan.output_height, plan.output_width);
  base.chains = nullptr;
  base.erased_count = 0;
  last.erased_count = plan.erased_count, last.erased = plan.erased;
  const Picture own = render_levels(picture, base, base_levels);
  const size_t count = static_cast<size_t>(own.height) * static_cast<size_t>(own.row_stride);
  sums.resize(count);
  for (size_t i = 0; i < count; ++i) sums[i] = plan.share * static_cast<float>(own.pixels[i]);
  for (const Chain& chain : *plan.chains) {
    Picture seen = own;
    for (size_t i = 0; i < chain.stages.size(); ++i)
      seen = render_levels(seen, chain.stages[i], stage_levels[i % stage_levels.size()]);
    for (size_t i = 0; i < count; ++i) sums[i] += chain.share * static_cast<float>(seen.pixels[i]);
  }
  for (size_t i = 0; i < count; ++i) base_levels[i] = static_cast<uint8_t>(detail::cut_level(sums[i]));
  render(own, last, normalization, layout, output);
}

}  // namespace

void render(const Picture& picture, const Plan& plan, const Normalization& normalization, Layout layout, void* output) {
  if (is_raster(picture.type, picture.channels)) [[unlikely]]
    return render_raster(picture, plan, normalization, layout, output);
  if (plan.chains) [[unlikely]]
    return render_mixed(picture, plan, normalization, layout, output);
  check(picture, plan);
  if (plan.view == Region{0, 0, plan.input_width, plan.input_height})
    return render_view(picture, plan, normalization, layout, output);
  Picture part = picture;  // the same pixels, with coordinates counted from the view's corner
  part.x -= plan.view.x;
  part.y -= plan.view.y;
  render_view(part, detail::seen_from_view(plan), normalization, layout, output);
}

}  // namespace penstock
