// decode_webp(): pixels of a WebP file.
#pragma once

#include "loader/import/foreign_picture.h"

namespace penstock::detail {

/// By libwebp; of an animation the first frame, on the canvas that it is drawn on. Its EXIF is kept. Errors: as
/// ForeignFormat.
ForeignPicture decode_webp(std::span<const uint8_t> bytes, int64_t max_pixels);

}  // namespace penstock::detail
