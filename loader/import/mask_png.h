// grey_mask_png(): the file of a mask as a PNG whose grey levels are the mask's values.
#pragma once

#include <cstdint>
#include <vector>

namespace penstock::detail {

/// A grey PNG of 8 or 16 bits stays as it is. The numbers of a palette, and grey levels of 1, 2 and 4 bits, become grey
/// levels of 8 bits with the same numbers: no palette is applied and no level scaled. A GIF, TIFF, BMP or PGM becomes
/// such a PNG of 8 or 16 bits. Errors: corrupt_error, which names no file, for what is none of these, has colours or
/// alpha, or is broken.
std::vector<uint8_t> grey_mask_png(std::vector<uint8_t> png);

}  // namespace penstock::detail
