// read_png_metadata(): goes from chunk to chunk (PNG 1.2, 3.2 and 4.2.3), without trusting any.
#include "loader/codecs/png_metadata.h"

#include <zlib.h>

#include <optional>
#include <string_view>

#include "core/bytes.h"

namespace penstock::detail {
namespace {

using Bytes = std::span<const uint8_t>;

constexpr size_t kMaxTextBytes = size_t{1} << 20;
constexpr int kMaxInflated = 64;  // a hostile file could have 100,000 texts that inflate to 1 MiB each
constexpr std::string_view kXmp = "XML:com.adobe.xmp", kProfile = "Raw profile type exif", kExif = "exif";

uint32_t u32(Bytes bytes, size_t at) {
  return uint32_t{bytes[at]} << 24 | bytes[at + 1] << 16 | bytes[at + 2] << 8 | bytes[at + 3];
}

/// What precedes the next 0, which is removed from `rest` together with it; nothing if there is no 0.
std::optional<std::string_view> take_string(Bytes& rest) {
  const std::string_view text = as_text(rest);
  const size_t end = text.find('\0');
  if (end == std::string_view::npos) return {};
  rest = rest.subspan(end + 1);
  return text.substr(0, end);
}

/// Nothing if `packed` is broken or inflates to more than kMaxTextBytes.
std::optional<std::vector<uint8_t>> inflated(Bytes packed) {
  std::vector<uint8_t> text(kMaxTextBytes);
  uLongf byte_count = text.size();
  if (uncompress(text.data(), &byte_count, packed.data(), packed.size()) != Z_OK) return {};
  text.resize(byte_count);
  return text;
}

struct Text {
  std::string_view keyword;
  std::vector<uint8_t> bytes;
};

/// The text in a chunk tEXt, zTXt or iTXt if its keyword is one of ours and it is whole. `inflated_count` is that of
/// the file so far.
std::optional<Text> read_text(std::string_view type, Bytes rest, int& inflated_count) {
  const auto keyword = take_string(rest);
  if (!keyword || (*keyword != kXmp && *keyword != kProfile && *keyword != kExif)) return {};
  bool is_packed = type == "zTXt";
  uint8_t method = 0;
  if (type == "iTXt") {  // flag and method of compression, language, translated keyword
    if (rest.size() < 2) return {};
    is_packed = rest[0] != 0, method = rest[1];
    rest = rest.subspan(2);
    if (!take_string(rest) || !take_string(rest)) return {};
  } else if (is_packed) {
    if (rest.empty()) return {};
    method = rest[0];
    rest = rest.subspan(1);
  }
  if (!is_packed) return Text{*keyword, {rest.begin(), rest.end()}};
  if (method != 0 || ++inflated_count > kMaxInflated) return {};
  auto bytes = inflated(rest);
  if (!bytes) return {};
  return Text{*keyword, std::move(*bytes)};
}

int hex_digit(uint8_t c) {
  if (c >= '0' && c <= '9') return c - '0';
  const uint8_t lower = c | 0x20;
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/// The bytes that a raw profile gives in hexadecimal digits after its third line end; none if it has other signs.
std::vector<uint8_t> profile_bytes(Bytes profile) {
  std::vector<uint8_t> bytes;
  int line = 0, high = -1;
  for (const uint8_t c : profile) {
    if (c == '\n') ++line;
    if (line < 3 || c == '\n' || c == '\r' || c == ' ' || c == '\t') continue;
    const int digit = hex_digit(c);
    if (digit < 0) return {};
    if (high >= 0) bytes.push_back(static_cast<uint8_t>(high << 4 | digit));
    high = high >= 0 ? -1 : digit;
  }
  return bytes;
}

class Collector {
 public:
  void add(std::string_view type, Bytes data) {
    if (type == "eXIf") {
      found_.exif.assign(data.begin(), data.end());
    } else {
      auto text = read_text(type, data, inflated_count_);
      if (!text) return;
      auto& target = text->keyword == kXmp ? found_.xmp : text->keyword == kExif ? found_.exif : profile_;
      target = std::move(text->bytes);
    }
  }

  PngMetadata finish() {
    if (found_.exif.empty()) found_.exif = profile_bytes(profile_);
    return std::move(found_);
  }

 private:
  PngMetadata found_;
  std::vector<uint8_t> profile_;
  int inflated_count_ = 0;
};

}  // namespace

PngMetadata read_png_metadata(Bytes png) {
  constexpr size_t kSignatureBytes = 8, kChunkBytes = 12;  // of a chunk without data: length, type and CRC
  Collector collector;
  for (size_t at = kSignatureBytes; at + kChunkBytes <= png.size();) {
    const size_t length = u32(png, at);
    if (length > png.size() - at - kChunkBytes) break;
    const Bytes checked = png.subspan(at + 4, 4 + length), data = checked.subspan(4);
    const std::string_view type(reinterpret_cast<const char*>(checked.data()), 4);
    if (type == "IEND") break;
    const bool is_ours = type == "eXIf" || type == "tEXt" || type == "zTXt" || type == "iTXt";
    if (is_ours && crc32_z(0, checked.data(), checked.size()) == u32(png, at + kChunkBytes - 4 + length))
      collector.add(type, data);
    at += kChunkBytes + length;
  }
  return collector.finish();
}

}  // namespace penstock::detail
