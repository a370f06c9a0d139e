// decode_mask(): the values of a mask that is stored as a PNG.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace penstock {

/// Row by row. A value is what is stored of the pixel: the level of a grey PNG of 1, 2, 4, 8 or 16 bits, the number of
/// a palette's colour (never the colour), and of an RGB PNG of 8 bits R + 256 G + 65536 B, as COCO's panoptic masks
/// have it.
struct MaskPixels {
  int height = 0, width = 0;
  int bits = 8;                      // 8, 16 or 24: which of the vectors has the values
  std::vector<uint8_t> bytes = {};   // 8
  std::vector<uint16_t> words = {};  // 16
  std::vector<int32_t> longs = {};   // 24
};

/// Throws corrupt_error for a PNG that is none, is not of this size, or has alpha or RGB of 16 bits.
MaskPixels decode_mask(std::span<const uint8_t> png, int height, int width);

}  // namespace penstock
