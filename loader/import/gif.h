// decode_gif(): pixels of a GIF file.
#pragma once

#include "loader/import/foreign_picture.h"

namespace penstock::detail {

/// By giflib: the first frame, on the screen that it is drawn on. Errors: as ForeignFormat.
ForeignPicture decode_gif(std::span<const uint8_t> bytes, int64_t max_pixels);

}  // namespace penstock::detail
