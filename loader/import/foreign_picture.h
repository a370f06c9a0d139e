// ForeignPicture: a picture of a format that shards do not hold, decoded so that it can be stored losslessly as a PNG.
//
// Lives here: foreign formats as bytes, read without trust: pictures, tars, lists, arrays, XML and large JSON.
// Not here: which files make a data set (loader/sources), and the formats that shards hold (loader/codecs).
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "augment/plan.h"

namespace penstock::detail {

/// Pixels as H x W x C, of 8 or 16 bits (in the machine's byte order). Channels are 1 (grey) or 3 (RGB); alpha is left
/// out, not blended, as in the codec of PNG.
struct ForeignPicture {
  Extent extent;
  int bit_depth = 8;
  std::vector<uint8_t> pixels;
  std::vector<uint8_t> exif = {};  // the EXIF block, from its "II" or "MM" on; empty: none
};

/// One format: WebP, TIFF, GIF (of several frames the first) or BMP. decode() throws corrupt_error, which states only
/// the fact, and checks the size before it allocates memory for the pixels.
struct ForeignFormat {
  const char* name;
  std::vector<std::string> extensions;  // in lower case
  bool (*is_it)(std::span<const uint8_t> bytes);
  ForeignPicture (*decode)(std::span<const uint8_t> bytes);
};

/// The format of a file, by its first bytes; null: none of them.
const ForeignFormat* foreign_format_of(std::span<const uint8_t> bytes);

/// Whether `path` is named as a picture: that of a codec, or of a foreign format.
bool is_picture_name(const std::filesystem::path& path);

/// As a PNG with the same pixels and EXIF.
std::vector<uint8_t> to_png(const ForeignPicture& picture);

}  // namespace penstock::detail
