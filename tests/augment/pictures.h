// Pictures, plans and a plain renderer for the tests of augment.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "augment/plan.h"
#include "augment/render.h"
#include "core/rng.h"

namespace penstock::test {

/// A picture in its own memory, exactly as long as its pixels, so that AddressSanitizer sees a read beyond them.
struct OwnedPicture {
  std::vector<uint8_t> pixels;
  Picture view;
};

inline OwnedPicture noise_picture(int height, int width, int channels, Rng& rng) {
  OwnedPicture picture;
  picture.pixels.resize(static_cast<size_t>(height) * width * channels);
  for (auto& pixel : picture.pixels) pixel = static_cast<uint8_t>(rng.next() >> 24);
  picture.view = {.pixels = picture.pixels.data(),
                  .row_stride = static_cast<ptrdiff_t>(width) * channels,
                  .height = height,
                  .width = width,
                  .channels = channels};
  return picture;
}

/// The part of a whole picture that `region` says, in its own memory.
inline OwnedPicture cut_out(const Picture& whole, const Region& region) {
  OwnedPicture part;
  const size_t line = static_cast<size_t>(region.width) * whole.channels;
  part.pixels.resize(line * region.height);
  for (int row = 0; row < region.height; ++row) {
    const uint8_t* from = whole.pixels + (region.y + row) * whole.row_stride + region.x * whole.channels;
    std::copy(from, from + line, part.pixels.data() + row * line);
  }
  part.view = {.pixels = part.pixels.data(),
               .row_stride = static_cast<ptrdiff_t>(line),
               .height = region.height,
               .width = region.width,
               .channels = whole.channels,
               .x = region.x,
               .y = region.y};
  return part;
}

/// Any map: rotations, resizes, whole-pixel shifts, mirrored ones and some that look wholly outside.
inline Plan random_plan(int height, int width, Rng& rng) {
  Plan plan = Plan::identity(height, width);
  const int new_height = rng.between(1, 40), new_width = rng.between(1, 40);
  switch (rng.between(0, 4)) {
    case 0: {
      const double s = rng.uniform(0.3, 2.5), a = rng.uniform(-3.2, 3.2);
      plan.resample({s * std::cos(a), -s * std::sin(a), rng.uniform(-20, 40), s * std::sin(a), s * std::cos(a),
                     rng.uniform(-20, 40)},
                    new_height, new_width);
      break;
    }
    case 1:
      plan.resample(Affine::scaling(static_cast<double>(width) / new_width, static_cast<double>(height) / new_height),
                    new_height, new_width);
      if (rng.chance(0.5)) plan.resample(Affine::translation(rng.between(-3, 3), 0.25), new_height, new_width);
      if (rng.chance(0.3)) plan.resample({-1, 0, static_cast<double>(new_width), 0, 1, 0}, new_height, new_width);
      break;
    case 2:  // by halves of a pixel: coordinates fall on the picture's borders exactly
      plan.resample(Affine::translation(rng.between(-9, 2 * width + 9) / 2.0, rng.between(-9, 2 * height + 9) / 2.0),
                    new_height, new_width);
      break;
    default: {
      const double mirror_x = rng.chance(0.5) ? -1 : 1, mirror_y = rng.chance(0.3) ? -1 : 1;
      plan.resample({mirror_x, 0, static_cast<double>(rng.between(-5, width + 5)), 0, mirror_y,
                     static_cast<double>(rng.between(-5, height + 5))},
                    new_height, new_width);
    }
  }
  plan.filter = rng.chance(0.5) ? Filter::kNearest : Filter::kBilinear;
  for (auto& level : plan.fill) level = static_cast<float>(rng.uniform(0, 255));
  if (rng.chance(0.4)) {
    for (auto& row : plan.color)
      for (auto& entry : row) entry = static_cast<float>(rng.uniform(-0.5, 1));
    plan.color[0][3] = static_cast<float>(rng.uniform(-30, 30));
  }
  for (int k = rng.between(-4, 3); k > 0; --k) {
    const int top = rng.between(0, new_height - 1), left = rng.between(0, new_width - 1);
    const auto level = static_cast<float>(rng.uniform(0, 255));
    plan.erase({top, left, rng.between(top, new_height), rng.between(left, new_width), {level, 7, 250}});
  }
  return plan;
}

/// The level of the picture at (x, y), one pixel at a time: what Sampler says in words.
inline float reference_level(const Picture& picture, const Plan& plan, float x, float y, int channel) {
  const auto width = static_cast<float>(plan.input_width), height = static_cast<float>(plan.input_height);
  if (!(x >= 0 && x < width && y >= 0 && y < height)) return plan.fill[channel];
  const auto level = [&](int column, int row) {
    return static_cast<float>(
        picture.pixels[(row - picture.y) * picture.row_stride + (column - picture.x) * picture.channels + channel]);
  };
  if (plan.filter == Filter::kNearest) return level(static_cast<int>(x), static_cast<int>(y));
  const float u = std::clamp(x - 0.5f, 0.f, width - 1), v = std::clamp(y - 0.5f, 0.f, height - 1);
  const int left = static_cast<int>(u), top = static_cast<int>(v);
  const int right = std::min(left + 1, plan.input_width - 1), bottom = std::min(top + 1, plan.input_height - 1);
  const float wx = u - static_cast<float>(left), wy = v - static_cast<float>(top);
  const auto mix = [](float a, float b, float weight) { return a + weight * (b - a); };
  return mix(mix(level(left, top), level(left, bottom), wy), mix(level(right, top), level(right, bottom), wy), wx);
}

/// The contract of render(), readable and slow.
inline std::vector<uint8_t> reference_render(const Picture& picture, const Plan& plan, const Normalization& to,
                                             Layout layout) {
  const int channels = picture.channels, height = plan.output_height, width = plan.output_width;
  std::vector<uint8_t> output(rendered_bytes(layout, {height, width, channels}));
  const auto put = [&](int channel, int row, int column, float level) {
    const size_t pixel = static_cast<size_t>(row) * width + column;
    if (layout == Layout::kU8Nhwc) {
      output[pixel * channels + channel] = static_cast<uint8_t>(std::nearbyint(std::clamp(level, 0.f, 255.f)));
    } else {
      const float value = level * to.scale[channel] + to.bias[channel];
      std::memcpy(&output[(pixel + static_cast<size_t>(channel) * height * width) * sizeof(float)], &value,
                  sizeof(float));
    }
  };
  for (int row = 0; row < height; ++row) {
    for (int column = 0; column < width; ++column) {
      const Affine& m = plan.map;
      const auto c = static_cast<float>(column + 0.5);
      const float x = static_cast<float>(m.xx) * c + static_cast<float>(m.xy * (row + 0.5) + m.x0);
      const float y = static_cast<float>(m.yx) * c + static_cast<float>(m.yy * (row + 0.5) + m.y0);
      float in[3] = {0, 0, 0};
      for (int i = 0; i < channels; ++i) in[i] = reference_level(picture, plan, x, y, i);
      for (int i = 0; i < channels; ++i) {
        const auto& k = plan.color[i];
        put(i, row, column,
            channels == 1 ? in[0] * k[0] + k[3] : ((in[0] * k[0] + in[1] * k[1]) + in[2] * k[2]) + k[3]);
      }
    }
  }
  for (int e = 0; e < plan.erased_count; ++e)
    for (int row = plan.erased[e].top; row < plan.erased[e].bottom; ++row)
      for (int column = plan.erased[e].left; column < plan.erased[e].right; ++column)
        for (int i = 0; i < channels; ++i) put(i, row, column, plan.erased[e].level[i]);
  return output;
}

inline std::vector<uint8_t> rendered(const Picture& picture, const Plan& plan, const Normalization& to, Layout layout) {
  std::vector<uint8_t> output(rendered_bytes(layout, {plan.output_height, plan.output_width, picture.channels}));
  render(picture, plan, to, layout, output.data());
  return output;
}

}  // namespace penstock::test
