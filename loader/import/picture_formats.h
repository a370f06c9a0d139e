// ForeignFormat: the formats of pictures that become PNGs when they are packed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "loader/import/foreign_picture.h"

namespace penstock::detail {

/// One format: WebP, TIFF, GIF (of several frames the first), BMP or PNM. decode() throws corrupt_error, which states
/// only the fact, also for more than `max_pixels`, and checks the size before it allocates memory for the pixels.
struct ForeignFormat {
  const char* name;
  std::vector<std::string> extensions;  // in lower case
  bool is_certain;                      // false: the first bytes may also be those of a text
  bool (*is_it)(std::span<const uint8_t> bytes);
  ForeignPicture (*decode)(std::span<const uint8_t> bytes, int64_t max_pixels);
  /// What a mask has: the numbers of a palette's colours, or grey levels as the file has them, neither coloured nor
  /// scaled. Null for a format of colours alone. Errors: as decode(), also for colours.
  ForeignPicture (*numbers)(std::span<const uint8_t> bytes, int64_t max_pixels);
};

/// The format of a file, by its first bytes; null: none of them.
const ForeignFormat* foreign_format_of(std::span<const uint8_t> bytes);

/// Whether `path` is named as a picture: that of a codec, or of a foreign format.
bool is_picture_name(const std::filesystem::path& path);

/// As a PNG with the same pixels and EXIF.
std::vector<uint8_t> to_png(const ForeignPicture& picture);

}  // namespace penstock::detail
