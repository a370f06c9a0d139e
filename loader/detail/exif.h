// exif_orientation(): how a camera was held, from an EXIF block.
#pragma once

#include <cstdint>
#include <span>

namespace penstock::detail {

/// The orientation, 1 .. 8, in a TIFF structure (TIFF 6.0, tag 0x0112, SHORT or LONG): a JPEG's EXIF segment behind
/// "Exif\0\0", or a PNG's chunk eXIf. 1 when there is none that makes sense: a broken EXIF block is no reason to refuse
/// a picture.
uint8_t exif_orientation(std::span<const uint8_t> tiff);

}  // namespace penstock::detail
