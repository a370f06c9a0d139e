// decode_bmp(): pixels of a BMP file.
#pragma once

#include "loader/import/foreign_picture.h"

namespace penstock::detail {

/// By stb_image. Errors: as ForeignFormat.
ForeignPicture decode_bmp(std::span<const uint8_t> bytes, int64_t max_pixels);

}  // namespace penstock::detail
