// TurnedJob: transposes the pixels of the footprint, tile by tile.
#include "augment/kernels/turned_job.h"

#include <algorithm>
#include <cstring>

#include "augment/plan/footprint.h"

namespace penstock::detail {
namespace {

/// to[x][y] = from[y][x]. Works in tiles of 16 x 16 pixels, because the 16 lines that are read and the 16 that are
/// written then stay in the first-level cache.
template <int kChannels>
void transpose(const uint8_t* from, ptrdiff_t from_stride, int height, int width, uint8_t* to, ptrdiff_t to_stride) {
  constexpr int kTile = 16;
  for (int top = 0; top < height; top += kTile) {
    for (int left = 0; left < width; left += kTile) {
      const int bottom = std::min(top + kTile, height), right = std::min(left + kTile, width);
      for (int x = left; x < right; ++x)
        for (int y = top; y < bottom; ++y)
          std::memcpy(to + x * to_stride + y * kChannels, from + y * from_stride + x * kChannels, kChannels);
    }
  }
}

}  // namespace

TurnedJob::TurnedJob(const RenderJob& from, int channels) : plan(*from.plan), job(from) {
  const Affine& m = from.plan->map;
  plan.map = {m.yx, m.yy, m.y0, m.xx, m.xy, m.x0};
  std::swap(plan.input_height, plan.input_width);
  plan.view = {0, 0, plan.input_width, plan.input_height};
  const Region region = footprint(*from.plan);
  auto& pixels = render_scratch().turned;
  const ptrdiff_t stride = static_cast<ptrdiff_t>(region.height) * channels;
  pixels.resize(static_cast<size_t>(stride) * region.width);
  const uint8_t* first = from.pixels + (region.y - from.window_y) * from.row_stride +
                         static_cast<ptrdiff_t>(region.x - from.window_x) * channels;
  const auto turn = channels == 1 ? transpose<1> : transpose<3>;
  turn(first, from.row_stride, region.height, region.width, pixels.data(), stride);
  job.plan = &plan;
  job.pixels = pixels.data();
  job.row_stride = stride;
  job.window_x = region.y;
  job.window_y = region.x;
}

}  // namespace penstock::detail
