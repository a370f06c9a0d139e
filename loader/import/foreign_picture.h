// ForeignPicture: a picture of a format that shards do not hold, decoded so that it can be stored losslessly as a PNG.
//
// Lives here: foreign formats as bytes, read without trust: pictures, tars, lists, arrays, XML and large JSON.
// Not here: which files make a data set (loader/sources), and the formats that shards hold (loader/codecs).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "loader/files/picture_checks.h"

namespace penstock::detail {

/// Pixels as H x W x C, of 8 or 16 bits (in the machine's byte order). Channels are 1 (grey) or 3 (RGB); alpha is left
/// out, not blended, as in the codec of PNG. A TIFF of f32 or with more than 4 samples per pixel has all of them.
struct ForeignPicture {
  Extent extent;
  int bit_depth = 8;  // 8, 16, or 32 for f32
  std::vector<uint8_t> pixels;
  std::vector<uint8_t> exif = {};  // the EXIF block, from its "II" or "MM" on; empty: none

  PixelType type() const {
    return bit_depth == 8 ? PixelType::kU8 : bit_depth == 16 ? PixelType::kU16 : PixelType::kF32;
  }
  /// Whether a PNG can hold it.
  bool fits_png() const { return bit_depth <= 16 && (extent.channels == 1 || extent.channels == 3); }
};

/// Checks the size that a header claims, before anything is allocated for it. No format here packs 2^18 pixels into a
/// byte: a blank page of 16,384 x 16,384 pixels has 2 KB as CCITT's fax, 131,000 pixels per byte.
inline void check_claim(int64_t height, int64_t width, std::span<const uint8_t> file, int64_t max_pixels) {
  check_pixels(height, width);
  const int64_t pixels = height * width;
  if (pixels > max_pixels)
    throw corrupt_error(
        concat("picture of ", height, " x ", width, " pixels; expected at most ", max_pixels, " pixels"));
  if (static_cast<uint64_t>(pixels) >> 18 > file.size())
    throw corrupt_error(concat("picture of ", height, " x ", width, " pixels in ", file.size(),
                               " bytes; expected a file that can hold them"));
}

}  // namespace penstock::detail
