// Pictures and plans for the tests of augment.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "augment/plan/plan.h"
#include "augment/render.h"
#include "core/rng.h"

namespace penstock::test {

inline constexpr Normalization kLevels{.scale = {1, 1, 1}, .bias = {0, 0, 0}};
inline const Normalization kNormalization = Normalization::of({0.1307, 0.45, 0.6}, {0.3081, 0.22, 0.5});

/// A picture in an allocation that is exactly as long as its pixels, so that AddressSanitizer detects a read outside of
/// them.
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

/// The part `region` of a whole picture, in an allocation of its own.
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

/// Where a picture of a random size begins and ends along an axis of `size` pixels that shows it in a border: wholly,
/// or at least as much of it as a border shows again.
inline std::pair<int, int> random_place(int size, Rng& rng) {
  const int border = (size - 1) / 2;
  if (rng.chance(0.3)) return {rng.between(-3, border), size + 5};
  if (rng.chance(0.3)) return {-5, rng.between(size - border, size + 3)};
  const int begin = rng.between(0, size - 1);
  return {begin, rng.between(begin + 1, size)};
}

inline void add_random_border(Plan& plan, Rng& rng) {
  const auto [left, right] = random_place(plan.output_width, rng);
  const auto [top, bottom] = random_place(plan.output_height, rng);
  plan.repeat_around({left, top, right - left, bottom - top}, static_cast<Border>(rng.between(1, 3)));
}

/// A plan with a random map: a rotation, a resize, a shift by whole pixels, a mirrored one, or one that looks only
/// outside of the picture.
inline Plan random_plan(int height, int width, Rng& rng) {
  Plan plan = Plan::identity(height, width);
  const int new_height = rng.between(1, 40), new_width = rng.between(1, 40);
  switch (rng.between(0, 5)) {
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
    case 5: {  // along the axes, turned or not, often within a part of the picture
      plan = Plan::upright(rng.between(1, 8), height, width);
      const int old_height = plan.output_height, old_width = plan.output_width;
      const int left = rng.between(0, old_width - 1), top = rng.between(0, old_height - 1);
      const Region rect{left, top, rng.between(1, old_width - left), rng.between(1, old_height - top)};
      if (rng.chance(0.6)) plan.look_only_at(rect);
      plan.resample({static_cast<double>(rect.width) / new_width, 0, static_cast<double>(rect.x), 0,
                     static_cast<double>(rect.height) / new_height, static_cast<double>(rect.y)},
                    new_height, new_width);
      if (rng.chance(0.3)) plan.resample(Affine::translation(rng.between(-3, 3), 0.25), new_height, new_width);
      break;
    }
    case 2:  // by half pixels, so that coordinates fall exactly on the picture's borders
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
  if (rng.chance(0.2)) {
    const int left = rng.between(0, width), top = rng.between(0, height);
    plan.view = {left, top, rng.between(0, width - left), rng.between(0, height - top)};
  }
  plan.filter = static_cast<Filter>(rng.between(0, static_cast<int>(Filter::kAntialiasLanczos)));
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
  if (rng.chance(0.2)) add_random_border(plan, rng);
  return plan;
}

/// Whether Pillow may take the pixel on the other side of a border. For a nearest affine it adds up steps in 16.16
/// fixed point, each with an error of up to 2^-17. After 30 steps a coordinate this close to a pixel's border may fall
/// on either side.
inline bool is_tie(const Plan& plan, size_t pixel) {
  const double column = static_cast<double>(pixel % plan.output_width) + 0.5;
  const double row = static_cast<double>(pixel / plan.output_width) + 0.5;
  const Affine& m = plan.map;
  const double x = m.xx * column + m.xy * row + m.x0, y = m.yx * column + m.yy * row + m.y0;
  return std::fabs(x - std::round(x)) < 5e-4 || std::fabs(y - std::round(y)) < 5e-4;
}

inline std::vector<uint8_t> rendered(const Picture& picture, const Plan& plan, const Normalization& to, Layout layout) {
  std::vector<uint8_t> output(rendered_bytes(layout, {plan.output_height, plan.output_width, picture.channels}));
  render(picture, plan, to, layout, output.data());
  return output;
}

}  // namespace penstock::test
