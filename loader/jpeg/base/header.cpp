// parse_jpeg_header(): reads one marker after the other, without trusting any (ITU-T T.81, annex B).
#include "loader/jpeg/base/header.h"

#include <algorithm>

#include "core/error.h"
#include "core/text.h"

namespace penstock::detail {
namespace {

using Bytes = std::span<const uint8_t>;

int u16(Bytes bytes, size_t at) { return bytes[at] << 8 | bytes[at + 1]; }

bool begins_with(Bytes bytes, std::string_view text) {
  return bytes.size() >= text.size() && std::equal(text.begin(), text.end(), bytes.begin(),
                                                   [](char c, uint8_t b) { return static_cast<uint8_t>(c) == b; });
}

class Parser {
 public:
  explicit Parser(Bytes bytes) : bytes_(bytes) {}

  JpegHeader parse() {
    if (bytes_.size() < 2 || bytes_[0] != 0xFF || bytes_[1] != 0xD8)
      throw corrupt_error(
          concat("JPEG: ", bytes_.size(), " bytes without the marker SOI at their begin; expected FF D8"));
    at_ = 2;
    while (!read_segment()) {
    }
    header_.scan_begin = at_;
    header_.color = color();
    return header_;
  }

 private:
  [[noreturn]] void fail(const std::string& fact) const {
    throw corrupt_error(concat("JPEG: ", fact, " at byte ", at_, "; expected a whole picture"));
  }

  /// Reads one marker segment. Returns true after SOS.
  bool read_segment() {
    const int marker = next_marker();
    if (marker == 0xD9) fail("end of picture before any scan");
    if (marker == 0x01 || (marker >= 0xD0 && marker <= 0xD7)) return false;  // TEM and RSTn have no body
    if (marker < 0xC0 || marker == 0xD8 || marker == 0xDE || marker == 0xDF || (marker >= 0xF0 && marker != 0xFE))
      fail(concat("unknown marker ", marker));
    if (at_ + 2 > bytes_.size()) fail("cut off");
    auto length = static_cast<size_t>(u16(bytes_, at_));
    // libjpeg takes a length of 0 or 1 for 2, where it only skips: in APPn, COM and DNL.
    const bool is_skipped = (marker >= 0xE0 && marker <= 0xEF) || marker == 0xFE || marker == 0xDC;
    if (is_skipped) length = std::max<size_t>(length, 2);
    if (length < 2 || at_ + length > bytes_.size()) fail(concat("segment of ", length, " bytes"));
    const Bytes body = bytes_.subspan(at_ + 2, length - 2);
    read_body(marker, body);
    at_ += length;
    return marker == 0xDA;
  }

  /// Goes to the byte after the next 0xFF that is not followed by 0, as libjpeg does, and returns that byte.
  int next_marker() {
    for (;;) {
      const size_t begin = at_;
      while (at_ < bytes_.size() && bytes_[at_] != 0xFF) ++at_;
      const size_t end = at_;
      while (at_ < bytes_.size() && bytes_[at_] == 0xFF) ++at_;  // fill bytes
      if (at_ >= bytes_.size()) fail("cut off");
      const int found = bytes_[at_++];
      header_.has_warning |= end > begin || found == 0;
      if (found != 0) return found;
    }
  }

  void read_body(int marker, Bytes body) {
    const bool is_frame = marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
    if (is_frame) return read_frame(marker, body);
    switch (marker) {
      case 0xC4:
        return read_huffman(body);
      case 0xDB:
        return read_quant(body);
      case 0xDD:
        if (body.size() != 2) fail("DRI of a wrong length");
        header_.restart_interval = u16(body, 0);
        return;
      case 0xDA:
        return read_scan(body);
      case 0xE0:
        // libjpeg believes the colour space only when there are 14 bytes or more.
        if (body.size() < 14 || !begins_with(body, std::string_view("JFIF\0", 5))) return;
        has_jfif_ = true;
        header_.has_warning |= body[5] != 1;  // the major revision
        return;
      case 0xE1:
        return read_metadata(body);
      case 0xEE:
        if (body.size() >= 12 && begins_with(body, "Adobe")) adobe_transform_ = body[11];
        return;
      default:
        return;
    }
  }

  void read_metadata(Bytes body) {
    constexpr std::string_view kExif("Exif\0\0", 6), kXmp("http://ns.adobe.com/xap/1.0/\0", 29);
    // Only the first EXIF segment is read. A second one continues a block of more than 64 KB.
    if (header_.exif.empty() && begins_with(body, kExif)) header_.exif = body.subspan(kExif.size());
    if (begins_with(body, kXmp)) header_.xmp = body.subspan(kXmp.size());
  }

  void read_frame(int marker, Bytes body) {
    if (header_.component_count != 0) fail("second frame");
    // Baseline, extended and progressive; then extended and progressive with arithmetic coding.
    constexpr std::array kKnown{0xC0, 0xC1, 0xC2, 0xC9, 0xCA};
    if (std::find(kKnown.begin(), kKnown.end(), marker) == kKnown.end())
      fail(concat("lossless or hierarchical coding (SOF", marker - 0xC0, ")"));
    is_sequential_huffman_ = marker == 0xC0 || marker == 0xC1;
    is_progressive_ = marker == 0xC2 || marker == 0xCA;
    if (body.size() < 6) fail("frame header cut off");
    if (body[0] != 8) fail(concat(int{body[0]}, " bits a sample, where 8 are supported,"));
    header_.height = u16(body, 1);
    header_.width = u16(body, 3);
    if (header_.height < 1 || header_.width < 1) fail(concat("picture of ", header_.height, " x ", header_.width));
    const int count = body[5];
    if (count != 1 && count != 3 && count != 4) fail(concat(count, " components, where 1, 3 or 4 are supported,"));
    if (body.size() != 6 + 3 * static_cast<size_t>(count)) fail("frame header of a wrong length");
    header_.component_count = count;
    for (int i = 0; i < count; ++i) {
      const Bytes entry = body.subspan(6 + 3 * static_cast<size_t>(i), 3);
      auto& component = header_.components[i];
      component = {entry[0], entry[1] >> 4, entry[1] & 15, entry[2], 0, 0};
      if (component.h < 1 || component.h > 4 || component.v < 1 || component.v > 4 || component.quant_table > 3)
        fail(concat("sampling ", component.h, " x ", component.v, " or quantisation table ", component.quant_table));
      if (count == 1) component.h = component.v = 1;
    }
  }

  void read_quant(Bytes body) {
    while (!body.empty()) {
      const int precision = body[0] >> 4, table = body[0] & 15;
      const size_t length = precision == 0 ? 65 : 129;
      if (precision > 1 || table > 3 || body.size() < length) fail("broken quantisation table");
      for (size_t k = 0; k < 64; ++k) {
        const int step = precision == 0 ? body[1 + k] : u16(body, 1 + 2 * k);
        if (step == 0) fail("quantisation step 0");
        header_.quant[table][kNaturalOrder[k]] = static_cast<uint16_t>(step);
      }
      body = body.subspan(length);
    }
  }

  void read_huffman(Bytes body) {
    while (!body.empty()) {
      const int kind = body[0] >> 4, table = body[0] & 15;
      if (kind > 1 || table > 3 || body.size() < 17) fail("broken Huffman table");
      HuffmanSpec spec;
      for (size_t i = 0; i < 16; ++i) spec.symbol_count += spec.counts[i] = body[1 + i];
      const auto count = static_cast<size_t>(spec.symbol_count);
      if (count > 256 || body.size() < 17 + count) fail(concat("Huffman table of ", count, " codes"));
      std::copy_n(body.begin() + 17, count, spec.symbols.begin());
      (kind == 0 ? header_.dc : header_.ac)[table] = spec;
      body = body.subspan(17 + count);
    }
  }

  void read_scan(Bytes body) {
    if (header_.component_count == 0) fail("scan before the frame");
    if (body.empty() || body.size() != 4 + 2 * size_t{body[0]} || body[0] < 1 || body[0] > 4)
      fail("broken scan header");
    const int count = body[0];
    bool is_whole = is_sequential_huffman_ && count == header_.component_count;
    for (int i = 0; i < count && is_whole; ++i) {
      auto& component = header_.components[i];
      const int tables = body[2 + 2 * static_cast<size_t>(i)];
      is_whole = body[1 + 2 * static_cast<size_t>(i)] == component.id;
      component.dc_table = tables >> 4;
      component.ac_table = tables & 15;
      if (component.dc_table > 3 || component.ac_table > 3) fail(concat("Huffman tables ", tables));
    }
    header_.is_one_scan = is_whole;
    const Bytes spectrum = body.last(3);  // Ss, Se, and Ah with Al: a sequential scan always has all coefficients
    header_.has_warning |= !is_progressive_ && (spectrum[0] != 0 || spectrum[1] != 63 || spectrum[2] != 0);
  }

  /// The colour space, guessed as in libjpeg's default_decompress_parms().
  JpegColor color() {
    const auto& components = header_.components;
    if (header_.component_count == 1) return JpegColor::kGrey;
    if (header_.component_count == 4) {
      header_.has_warning |= adobe_transform_ > 0 && adobe_transform_ != 2;
      return adobe_transform_ > 0 ? JpegColor::kYcck : JpegColor::kCmyk;
    }
    if (has_jfif_) return JpegColor::kYcc;
    header_.has_warning |= adobe_transform_ > 1;
    if (adobe_transform_ >= 0) return adobe_transform_ == 0 ? JpegColor::kRgb : JpegColor::kYcc;
    const bool is_rgb = components[0].id == 'R' && components[1].id == 'G' && components[2].id == 'B';
    return is_rgb ? JpegColor::kRgb : JpegColor::kYcc;
  }

  Bytes bytes_;
  size_t at_ = 0;
  JpegHeader header_;
  bool has_jfif_ = false, is_sequential_huffman_ = false, is_progressive_ = false;
  int adobe_transform_ = -1;  // -1: no Adobe marker
};

}  // namespace

const std::array<uint8_t, 80> kNaturalOrder{
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13,
    6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31,
    39, 46, 53, 60, 61, 54, 47, 55, 62, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63};

bool JpegHeader::is_decodable() const {
  if (!is_one_scan || component_count > 3) return false;
  int max_h = 1, max_v = 1, block_count = 0;
  for (int i = 0; i < component_count; ++i) {
    max_h = std::max(max_h, components[i].h);
    max_v = std::max(max_v, components[i].v);
    block_count += components[i].h * components[i].v;
  }
  for (int i = 0; i < component_count; ++i) {
    const auto& component = components[i];
    if (max_h % component.h != 0 || max_v % component.v != 0) return false;
    const bool has_tables = quant[component.quant_table][0] != 0 && dc[component.dc_table].symbol_count > 0 &&
                            ac[component.ac_table].symbol_count > 0;
    if (!has_tables) return false;
  }
  return block_count <= 10;
}

JpegHeader parse_jpeg_header(Bytes bytes) { return Parser(bytes).parse(); }

}  // namespace penstock::detail
