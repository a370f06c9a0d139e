// Picture: decoded pixels, in the memory of whoever decoded them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "augment/pixels/pixels.h"

namespace penstock {

/// A view of decoded pixels: H x W x C, interleaved, rows `row_stride` bytes apart. It is the part of the stored
/// picture whose upper left pixel is (x, y); a whole picture has x = y = 0. The decoder that returned it says how long
/// it is valid. Levels of u16 and f32 need not be aligned.
struct Picture {
  const uint8_t* pixels = nullptr;
  ptrdiff_t row_stride = 0;  // bytes
  int height = 0, width = 0, channels = 0;
  int x = 0, y = 0;  // position in the stored picture, pixels
  PixelType type = PixelType::kU8;
};

}  // namespace penstock
