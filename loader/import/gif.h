// decode_gif(): pixels of a GIF file, and gif_numbers(): those of a mask.
#pragma once

#include "loader/import/foreign_picture.h"

namespace penstock::detail {

/// By giflib: the first frame, on the screen that it is drawn on. Errors: as ForeignFormat.
ForeignPicture decode_gif(std::span<const uint8_t> bytes, int64_t max_pixels);

/// As ForeignFormat::numbers: those of the palette.
ForeignPicture gif_numbers(std::span<const uint8_t> bytes, int64_t max_pixels);

}  // namespace penstock::detail
