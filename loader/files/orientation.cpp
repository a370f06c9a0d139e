// stored_orientation(): reads a TIFF directory without trust, and searches an XMP packet.
#include "loader/files/orientation.h"

#include <cstddef>
#include <string_view>

#include "core/bytes.h"

namespace penstock::detail {
namespace {

uint8_t sensible(uint32_t value) { return value >= 1 && value <= 8 ? static_cast<uint8_t>(value) : uint8_t{1}; }

/// The size of a TIFF type of whole numbers that Pillow reads as one; 0 for others. BYTE is none: it reads bytes.
int whole_number_bytes(uint32_t type) {
  constexpr uint32_t kShort = 3, kLong = 4, kSignedByte = 6, kSignedShort = 8, kSignedLong = 9;
  if (type == kSignedByte) return 1;
  if (type == kShort || type == kSignedShort) return 2;
  return type == kLong || type == kSignedLong ? 4 : 0;
}

/// Numbers of a TIFF structure in its byte order.
struct Tiff {
  std::span<const uint8_t> bytes;
  bool is_little;

  /// Requires that the bytes are there.
  uint32_t number(size_t at, int byte_count) const {
    uint32_t value = 0;
    for (int i = 0; i < byte_count; ++i)
      value |= uint32_t{bytes[at + static_cast<size_t>(i)]} << 8 * (is_little ? i : byte_count - 1 - i);
    return value;
  }
};

}  // namespace

std::optional<uint8_t> exif_orientation(std::span<const uint8_t> block) {
  constexpr std::string_view kPrefix("Exif\0\0", 6);
  constexpr uint32_t kOrientation = 0x0112;
  constexpr size_t kEntryBytes = 12;
  if (as_text(block).starts_with(kPrefix)) block = block.subspan(kPrefix.size());
  if (block.size() < 8) return {};
  const Tiff tiff{block, as_text(block).starts_with("II")};
  if (!tiff.is_little && !as_text(block).starts_with("MM")) return {};
  const size_t directory = tiff.number(4, 4);
  if (directory > block.size() - 2) return {};
  const size_t entry_count = tiff.number(directory, 2);
  for (size_t i = 0; i < entry_count; ++i) {
    const size_t entry = directory + 2 + kEntryBytes * i;
    if (entry + kEntryBytes > block.size()) return {};
    const uint32_t type = tiff.number(entry + 2, 2), value_count = tiff.number(entry + 4, 4);
    if (tiff.number(entry, 2) != kOrientation || value_count != 1) continue;
    const int byte_count = whole_number_bytes(type);
    return byte_count > 0 ? sensible(tiff.number(entry + 8, byte_count)) : uint8_t{1};
  }
  return {};
}

std::optional<uint8_t> xmp_orientation(std::span<const uint8_t> packet) {
  constexpr std::string_view kName = "tiff:Orientation";
  for (std::string_view text = as_text(packet);;) {
    const size_t at = text.find(kName);
    if (at == std::string_view::npos) return {};
    text.remove_prefix(at + kName.size());
    const size_t digit = text.starts_with("=\"") ? 2 : text.starts_with(">") ? 1 : std::string_view::npos;
    if (digit >= text.size() || text[digit] < '0' || text[digit] > '9') continue;
    return sensible(static_cast<uint32_t>(text[digit] - '0'));
  }
}

uint8_t stored_orientation(std::span<const uint8_t> exif, std::span<const uint8_t> xmp) {
  const auto found = exif_orientation(exif);
  return found ? *found : xmp_orientation(xmp).value_or(1);
}

}  // namespace penstock::detail
