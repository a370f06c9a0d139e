// decode_tiff(): pixels of a TIFF file, and tiff_numbers(): those of a mask.
#pragma once

#include "loader/import/foreign_picture.h"

namespace penstock::detail {

/// By libtiff; of several pages the first one. 9 to 15 bits become 16 with the same numbers, 16 stay 16; its
/// orientation becomes EXIF. Errors: as ForeignFormat.
ForeignPicture decode_tiff(std::span<const uint8_t> bytes, int64_t max_pixels);

/// As ForeignFormat::numbers: grey levels, or the numbers of a palette.
ForeignPicture tiff_numbers(std::span<const uint8_t> bytes, int64_t max_pixels);

}  // namespace penstock::detail
