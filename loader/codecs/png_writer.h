// write_png(): pixels to a PNG file in memory, by libspng.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "augment/pixels/pixels.h"

namespace penstock::detail {

/// `bit_depth` is 8 or 16 per channel. `pixels`: H x W x C in the machine's byte order, where C is 1 (grey) or 3 (RGB).
/// `exif` is a block for the chunk eXIf, or empty; one that is no EXIF is left out. Errors: bug_error for what libspng
/// refuses.
std::vector<uint8_t> write_png(std::span<const uint8_t> pixels, const Extent& extent, int bit_depth = 8,
                               std::span<const uint8_t> exif = {});

}  // namespace penstock::detail
