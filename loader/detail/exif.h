// exif_orientation(): how a camera was held, from an EXIF block.
#pragma once

#include <cstdint>
#include <span>

namespace penstock::detail {

/// The orientation, 1 .. 8, that a TIFF structure states (TIFF 6.0, tag 0x0112, SHORT or LONG). In a JPEG the structure
/// is what follows "Exif\0\0" in the EXIF segment, in a PNG the chunk eXIf. Returns 1 when there is no valid
/// orientation, because a broken EXIF block is no reason to refuse a picture.
uint8_t exif_orientation(std::span<const uint8_t> tiff);

}  // namespace penstock::detail
