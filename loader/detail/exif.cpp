// exif_orientation(): the first directory of a TIFF structure, read without trust.
#include "loader/detail/exif.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace penstock::detail {

uint8_t exif_orientation(std::span<const uint8_t> tiff) {
  constexpr uint32_t kOrientation = 0x0112, kShort = 3, kLong = 4;
  constexpr size_t kEntryBytes = 12;
  if (tiff.size() < 8) return 1;
  const auto begins_with = [&](std::string_view text) { return std::equal(text.begin(), text.end(), tiff.begin()); };
  const bool is_little = begins_with("II");
  if (!is_little && !begins_with("MM")) return 1;
  const auto number = [&](size_t at, int byte_count) {
    uint32_t value = 0;
    for (int i = 0; i < byte_count; ++i)
      value |= uint32_t{tiff[at + static_cast<size_t>(i)]} << 8 * (is_little ? i : byte_count - 1 - i);
    return value;
  };
  const size_t directory = number(4, 4);
  if (directory > tiff.size() - 2) return 1;
  const size_t entry_count = number(directory, 2);
  for (size_t i = 0; i < entry_count; ++i) {
    const size_t entry = directory + 2 + kEntryBytes * i;
    if (entry + kEntryBytes > tiff.size()) return 1;
    if (number(entry, 2) != kOrientation) continue;
    const uint32_t type = number(entry + 2, 2);
    const uint32_t value = type == kShort ? number(entry + 8, 2) : type == kLong ? number(entry + 8, 4) : 1;
    return value >= 1 && value <= 8 ? static_cast<uint8_t>(value) : uint8_t{1};
  }
  return 1;
}

}  // namespace penstock::detail
