// decode_pnm() and pnm_numbers(): a header of numbers between white space and comments, and levels as more of them or
// as bytes.
#include "loader/import/pnm.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace penstock::detail {
namespace {

[[noreturn]] void refuse_pnm(const std::string& fact) {
  throw corrupt_error(concat("PNM: ", fact, "; expected a whole PBM, PGM or PPM picture"));
}

bool is_space(uint8_t byte) { return byte == ' ' || (byte >= '\t' && byte <= '\r'); }

class PnmReader {
 public:
  /// `is_scaled`: whether the maximum becomes white.
  PnmReader(std::span<const uint8_t> bytes, int64_t max_pixels, bool is_scaled)
      : bytes_(bytes), kind_(bytes[1] - '0'), is_scaled_(is_scaled) {
    if (!is_scaled && kind_ % 3 != 2) refuse_pnm("bits or colours in a mask");
    const int64_t width = number(), height = number();
    check_claim(height, width, bytes, max_pixels);
    if (!has_bits()) most_ = number();
    if (most_ < 1 || most_ > 65535) refuse_pnm(concat("a maximum of ", most_));
    extent_ = {static_cast<int>(height), static_cast<int>(width), kind_ % 3 == 0 ? 3 : 1};
  }

  ForeignPicture read() && {
    const int depth = most_ > 255 ? 16 : 8;
    const size_t row_count = static_cast<size_t>(extent_.height),
                 row_levels = static_cast<size_t>(extent_.width) * static_cast<size_t>(extent_.channels);
    // A level takes a byte and a bit an eighth of one at least: nothing is allocated for a file that is too short.
    const size_t left = bytes_.size() - at_,
                 needed = kind_ == 4 ? row_count * ((row_levels + 7) / 8) : row_count * row_levels;
    if (left < needed) refuse_pnm(concat(left, " bytes of levels; at least ", needed, " are needed"));
    ForeignPicture picture{.extent = extent_,
                           .bit_depth = depth,
                           .pixels = std::vector<uint8_t>(row_count * row_levels * static_cast<size_t>(depth / 8))};
    uint8_t* out = picture.pixels.data();
    for (size_t row = 0; row < row_count; ++row)
      for (size_t i = 0; i < row_levels; ++i) out = put(level(i), depth, out);
    return picture;
  }

 private:
  bool has_bits() const { return kind_ == 1 || kind_ == 4; }

  uint8_t next() {
    if (at_ >= bytes_.size()) refuse_pnm(concat(bytes_.size(), " bytes, which are cut short"));
    return bytes_[at_++];
  }
  /// The next byte of text that is no comment.
  uint8_t next_of_text() {
    uint8_t byte = next();
    if (byte == '#')
      while (byte != '\n' && byte != '\r') byte = at_ < bytes_.size() ? next() : '\n';
    return byte;
  }
  uint8_t next_of_word() {
    uint8_t byte = next_of_text();
    while (is_space(byte)) byte = next_of_text();
    return byte;
  }
  /// A number, and the one byte of white space after it.
  int64_t number() {
    constexpr int64_t kMost = int64_t{1} << 31;
    int64_t value = 0;
    uint8_t byte = next_of_word();
    do {
      if (byte < '0' || byte > '9') refuse_pnm(concat("byte ", at_ - 1, " is no digit"));
      value = std::min(value * 10 + (byte - '0'), kMost);
      if (at_ == bytes_.size()) return value;
      byte = next_of_text();
    } while (!is_space(byte));
    return value;
  }

  /// The next level of a row, 0 to most_; i counts from the begin of the row.
  int64_t level(size_t i) {
    if (kind_ == 1) {
      const uint8_t digit = next_of_word();
      if (digit != '0' && digit != '1') refuse_pnm(concat("byte ", at_ - 1, " is neither 0 nor 1"));
      return '1' - digit;
    }
    if (kind_ == 4) {
      if (i % 8 == 0) bits_ = next();
      return (~bits_ >> (7 - i % 8)) & 1;  // 1 is black
    }
    int64_t value = kind_ < 4 ? number() : next();
    if (kind_ > 4 && most_ > 255) value = value * 256 + next();
    if (kind_ < 4 && value > most_) refuse_pnm(concat("a level of ", value, " above the maximum of ", most_));
    return std::min(value, most_);  // as bytes Pillow limits them
  }

  /// Scales by doubles and rounds halves to even, as Python does.
  uint8_t* put(int64_t level, int depth, uint8_t* out) const {
    const double white = depth == 8 ? 255 : 65535;
    const double part = static_cast<double>(level) / static_cast<double>(most_);
    const auto scaled = static_cast<uint16_t>(is_scaled_ ? std::lrint(part * white) : level);
    if (depth == 8) {
      *out = static_cast<uint8_t>(scaled);
      return out + 1;
    }
    std::memcpy(out, &scaled, sizeof scaled);
    return out + sizeof scaled;
  }

  std::span<const uint8_t> bytes_;
  int kind_;  // 1 to 6: the digit of the signature
  bool is_scaled_;
  size_t at_ = 2;
  int64_t most_ = 1;
  uint8_t bits_ = 0;  // of the last byte of kind 4
  Extent extent_;
};

}  // namespace

ForeignPicture decode_pnm(std::span<const uint8_t> bytes, int64_t max_pixels) {
  return PnmReader(bytes, max_pixels, true).read();
}

ForeignPicture pnm_numbers(std::span<const uint8_t> bytes, int64_t max_pixels) {
  return PnmReader(bytes, max_pixels, false).read();
}

}  // namespace penstock::detail
