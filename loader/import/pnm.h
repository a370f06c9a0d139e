// decode_pnm(): pixels of a PBM, PGM or PPM file, and pnm_numbers(): those of a mask.
#pragma once

#include "loader/import/foreign_picture.h"

namespace penstock::detail {

/// P1 to P6: bits, grey levels or RGB, as digits or as bytes; of several pictures the first. Up to a maximum of 255
/// they become levels of 8 bits, above it of 16, scaled as Pillow does. Errors: as ForeignFormat.
ForeignPicture decode_pnm(std::span<const uint8_t> bytes, int64_t max_pixels);

/// As ForeignFormat::numbers: grey levels.
ForeignPicture pnm_numbers(std::span<const uint8_t> bytes, int64_t max_pixels);

}  // namespace penstock::detail
