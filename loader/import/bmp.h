// decode_bmp(): pixels of a BMP file, and bmp_numbers(): those of a mask.
#pragma once

#include "loader/import/foreign_picture.h"

namespace penstock::detail {

/// The pixels that Pillow reads, as RGB: headers of 12 (OS/2) to 124 bytes, palettes of 1 to 8 bits, 16 to 32 bits with
/// any bit fields, and run lengths. Errors: as ForeignFormat; a pixel whose colour the palette lacks is one.
ForeignPicture decode_bmp(std::span<const uint8_t> bytes, int64_t max_pixels);

/// As ForeignFormat::numbers: those of the palette.
ForeignPicture bmp_numbers(std::span<const uint8_t> bytes, int64_t max_pixels);

}  // namespace penstock::detail
