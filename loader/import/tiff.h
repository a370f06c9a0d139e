// decode_tiff(): pixels of a TIFF file.
#pragma once

#include "loader/import/foreign_picture.h"

namespace penstock::detail {

/// By libtiff; of several pages the first one. 16 bits stay 16 bits; its orientation becomes EXIF. Errors: as
/// ForeignFormat.
ForeignPicture decode_tiff(std::span<const uint8_t> bytes, int64_t max_pixels);

}  // namespace penstock::detail
