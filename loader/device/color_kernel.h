// color_tile(): from the samples of the components to pixels: upsampling and colour conversion as in decode_pixels().
#pragma once

#include "loader/device/job.h"
#include "loader/device/thread_block.h"
#include "loader/jpeg/pixels/pixel_math.h"

namespace penstock::detail {

/// The level of a component at pixel (x, y) of the picture at its scale. Beyond its edges, samples repeat.
inline int level_at(const ComponentJob& part, const uint8_t* scratch, int x, int y) {
  const auto sample = [&](int column, int row) {
    const int in_plane_x = column - part.blocks.left * part.dct_size,
              in_plane_y = row - part.blocks.top * part.dct_size;
    return static_cast<int>(scratch[part.plane + static_cast<uint64_t>(in_plane_y) * part.stride + in_plane_x]);
  };
  const auto inside = [](int value, int count) { return value < 0 ? 0 : value >= count ? count - 1 : value; };
  const int column = x / part.expand_x, row = y / part.expand_y;
  const bool is_odd_x = x % part.expand_x != 0, is_odd_y = y % part.expand_y != 0;
  const int beside = inside(is_odd_x ? column + 1 : column - 1, part.width);
  const int farther = inside(is_odd_y ? row + 1 : row - 1, part.height);
  if (part.is_fancy_x && part.is_fancy_y) {
    const int sum = blended(sample(column, row), sample(column, farther), 0, 0);
    const int sum_beside = blended(sample(beside, row), sample(beside, farther), 0, 0);
    return blended(sum, sum_beside, is_odd_x ? 7 : 8, 4);
  }
  if (part.is_fancy_x) return blended(sample(column, row), sample(beside, row), is_odd_x ? 2 : 1, 2);
  if (part.is_fancy_y) return blended(sample(column, row), sample(column, farther), is_odd_y ? 2 : 1, 2);
  return sample(column, row);
}

/// Task: kPixelThreads pixels of a row's region. Block: kPixelThreads.
inline void color_tile(const ThreadBlock& block, const KernelArguments& given, uint64_t task) {
  const int row = row_of_task(given.jobs, given.row_count, &RowJob::first_tile, task);
  const RowJob& job = given.jobs[row];
  block.each([&](int thread) {
    const uint64_t pixel = (task - job.first_tile) * kPixelThreads + static_cast<uint64_t>(thread);
    const auto width = static_cast<uint64_t>(job.pixel_width);
    if (pixel >= width * static_cast<uint64_t>(job.pixel_height)) return;
    const int x = job.pixel_x + static_cast<int>(pixel % width), y = job.pixel_y + static_cast<int>(pixel / width);
    uint8_t* out = given.scratch + job.pixels + pixel * static_cast<uint64_t>(job.channels);
    const auto level = [&](int component) { return level_at(job.components[component], given.scratch, x, y); };
    if (job.component_count == 1) {
      const int grey = level(0);
      for (int i = 0; i < job.channels; ++i) out[i] = static_cast<uint8_t>(grey);
    } else if (job.is_ycc) {
      const RgbLevels levels = rgb_of_ycc(level(0), level(1), level(2));
      out[0] = levels.red, out[1] = levels.green, out[2] = levels.blue;
    } else {
      for (int i = 0; i < 3; ++i) out[i] = static_cast<uint8_t>(level(i));
    }
  });
}

}  // namespace penstock::detail
