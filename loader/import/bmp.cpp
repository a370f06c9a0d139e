// decode_bmp() and bmp_numbers(): the headers of Windows and OS/2, palettes, bit fields and run lengths. Every index is
// checked.
#include "loader/import/bmp.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>

namespace penstock::detail {
namespace {

constexpr size_t kFileHeaderBytes = 14;
constexpr size_t kMasksAt = 54;  // in the headers from 52 bytes on, and after that of 40 bytes
constexpr uint32_t kCoreHeader = 12, kInfoHeader = 40, kOs2Header = 64;
constexpr uint32_t kPlain = 0, kRunLength8 = 1, kRunLength4 = 2, kBitFields = 3;

[[noreturn]] void refuse_bmp(const std::string& fact) {
  throw corrupt_error(concat("BMP: ", fact, "; expected a whole BMP picture"));
}

template <class Number>
Number number_at(std::span<const uint8_t> bytes, size_t at) {
  Number number{};
  if (bytes.size() < sizeof number || at > bytes.size() - sizeof number)
    refuse_bmp(concat(bytes.size(), " bytes, which end in the header"));
  std::memcpy(&number, &bytes[at], sizeof number);
  return number;
}

struct BmpHeader {
  uint32_t info_bytes = 0, compression = kPlain;
  int64_t height = 0, width = 0;
  bool is_top_down = false;
  unsigned bits = 0;                                              // per pixel
  size_t palette_begin = 0, palette_step = 4, palette_count = 0;  // in bytes, bytes and colours
  size_t pixels_begin = 0;

  size_t pixel_count() const { return static_cast<size_t>(height * width); }
  size_t row_bytes() const { return (static_cast<size_t>(width) * bits + 7) / 8; }
};

void check_form(const BmpHeader& header) {
  const unsigned bits = header.bits;
  const uint32_t compression = header.compression;
  const bool has_palette = bits == 1 || bits == 2 || bits == 4 || bits == 8,
             has_channels = bits == 16 || bits == 24 || bits == 32;
  // In the header of OS/2 with 64 bytes the number 3 means a fax.
  const bool is_known = (compression == kPlain && (has_palette || has_channels)) ||
                        (compression == kBitFields && has_channels && header.info_bytes != kOs2Header) ||
                        (compression == kRunLength8 && bits == 8) || (compression == kRunLength4 && bits == 4);
  if (!is_known)
    refuse_bmp(concat(bits, " bits per pixel in compression ", compression, " after a header of ", header.info_bytes,
                      " bytes, which is not read"));
}

/// Where palette and pixels are. Some files state where the palette begins, or 0, as the begin of the pixels.
void find_parts(BmpHeader& header, uint32_t stated_begin, uint32_t stated_count) {
  const size_t end = kFileHeaderBytes + header.info_bytes;
  const size_t all = header.bits <= 8 ? size_t{1} << header.bits : 0, given = stated_count > 0 ? stated_count : all;
  const bool has_masks_after = header.compression == kBitFields && header.info_bytes == kInfoHeader;
  header.palette_begin = end;
  header.palette_step = header.info_bytes == kCoreHeader ? 3 : 4;
  header.palette_count = std::min(given, all);
  header.pixels_begin = stated_begin;
  if (stated_begin == 0 || (stated_begin == end && header.bits <= 8))
    header.pixels_begin = end + (has_masks_after ? 12 : 0) + (header.bits <= 8 ? given * header.palette_step : 0);
  if (header.pixels_begin < end) refuse_bmp(concat("pixels begin at byte ", stated_begin, ", in the header"));
  header.palette_count = std::min(header.palette_count, (header.pixels_begin - end) / header.palette_step);
}

BmpHeader header_of(std::span<const uint8_t> bytes, int64_t max_pixels) {
  BmpHeader header{.info_bytes = number_at<uint32_t>(bytes, kFileHeaderBytes)};
  constexpr std::array<uint32_t, 7> kKnownBytes{kCoreHeader, kInfoHeader, 52, 56, kOs2Header, 108, 124};
  if (std::find(kKnownBytes.begin(), kKnownBytes.end(), header.info_bytes) == kKnownBytes.end())
    refuse_bmp(concat("a header of ", header.info_bytes, " bytes"));
  const bool is_core = header.info_bytes == kCoreHeader;  // with sides of 16 bits
  header.width = is_core ? number_at<uint16_t>(bytes, 18) : number_at<int32_t>(bytes, 18);
  const int64_t height = is_core ? number_at<uint16_t>(bytes, 20) : number_at<int32_t>(bytes, 22);
  header.height = std::abs(height);
  header.is_top_down = height < 0;
  check_claim(header.height, header.width, bytes, max_pixels);
  header.bits = number_at<uint16_t>(bytes, is_core ? 24 : 28);
  header.compression = is_core ? kPlain : number_at<uint32_t>(bytes, 30);
  check_form(header);
  find_parts(header, number_at<uint32_t>(bytes, 10), is_core ? 0 : number_at<uint32_t>(bytes, 46));
  return header;
}

/// The bytes of the pixels. Plain rows must be whole; the last one may lack its padding.
std::span<const uint8_t> pixel_bytes(std::span<const uint8_t> bytes, const BmpHeader& header) {
  size_t needed = header.pixels_begin;
  if (header.compression == kPlain || header.compression == kBitFields)
    needed += (header.row_bytes() + 3) / 4 * 4 * static_cast<size_t>(header.height - 1) + header.row_bytes();
  if (bytes.size() < needed) refuse_bmp(concat(bytes.size(), " bytes for a picture that needs ", needed));
  return bytes.subspan(header.pixels_begin);
}

std::span<const uint8_t> row_of(std::span<const uint8_t> pixels, const BmpHeader& header, int64_t row) {
  return pixels.subspan((header.row_bytes() + 3) / 4 * 4 * static_cast<size_t>(row), header.row_bytes());
}

/// The numbers of 1 to 8 bits, the first in the highest bits of a byte.
std::vector<uint8_t> plain_numbers(std::span<const uint8_t> pixels, const BmpHeader& header) {
  const unsigned per_byte = 8 / header.bits, mask = (1U << header.bits) - 1;
  std::vector<uint8_t> numbers;
  numbers.reserve(header.pixel_count());
  for (int64_t y = 0; y < header.height; ++y) {
    const auto row = row_of(pixels, header, y);
    for (size_t x = 0; x < static_cast<size_t>(header.width); ++x)
      numbers.push_back(static_cast<uint8_t>(row[x / per_byte] >> (8 - header.bits * (1 + x % per_byte)) & mask));
  }
  return numbers;
}

/// Numbers as run lengths: (count, number) repeats it, in 4 bits by turns with a second one; (0, 0) ends a row, (0, 1)
/// the picture, (0, 2) moves right and up, and (0, n) is followed by n numbers. What is moved over stays 0.
class RunReader {
 public:
  RunReader(std::span<const uint8_t> coded, const BmpHeader& header)
      : coded_(coded),
        height_(static_cast<size_t>(header.height)),
        width_(static_cast<size_t>(header.width)),
        is_half_(header.bits == 4),
        numbers_(header.pixel_count()) {}

  std::vector<uint8_t> read() && {
    while (y_ + 1 < height_ || (y_ + 1 == height_ && x_ < width_)) {
      const uint8_t count = next(), second = next();
      if (count > 0)
        repeat(std::min<size_t>(count, width_ - x_), second);  // programs write runs that are longer than their row
      else if (second == 0)
        ++y_, x_ = 0;
      else if (second == 1)
        refuse_bmp(concat("the coded pixels end in row ", y_, " of ", height_));
      else if (second == 2)
        move();
      else
        copy(second);
    }
    return std::move(numbers_);
  }

 private:
  uint8_t next() {
    if (at_ >= coded_.size()) refuse_bmp(concat("the coded pixels are cut short in row ", y_, " of ", height_));
    return coded_[at_++];
  }
  uint8_t* here() { return numbers_.data() + y_ * width_ + x_; }  // requires a pixel after it in the row
  uint8_t half(uint8_t byte, size_t place) const {
    return static_cast<uint8_t>(!is_half_ ? byte : place % 2 == 0 ? byte >> 4 : byte & 15);
  }

  void repeat(size_t count, uint8_t byte) {
    for (size_t i = 0; i < count; ++i) here()[i] = half(byte, i);
    x_ += count;
  }
  void move() {
    x_ += next();
    y_ += next();
    if (x_ > width_ || y_ >= height_) refuse_bmp("the coded pixels leave the picture");
  }
  void copy(size_t count) {
    if (count > width_ - x_) refuse_bmp(concat("row ", y_, " has coded pixels to column ", x_ + count, " of ", width_));
    uint8_t byte = 0;
    const size_t begin = at_;
    for (size_t i = 0; i < count; ++i) {
      if (!is_half_ || i % 2 == 0) byte = next();
      here()[i] = half(byte, i);
    }
    x_ += count;
    at_ += (at_ - begin) % 2;  // a byte of padding, which may be beyond the end
  }

  std::span<const uint8_t> coded_;
  size_t at_ = 0;         // in coded_
  size_t y_ = 0, x_ = 0;  // the next pixel; x_ up to width_, y_ up to height_
  size_t height_, width_;
  bool is_half_;
  std::vector<uint8_t> numbers_;
};

std::vector<uint8_t> colors_of(std::span<const uint8_t> bytes, const BmpHeader& header,
                               const std::vector<uint8_t>& numbers) {
  const size_t count = header.palette_count;
  std::array<std::array<uint8_t, 3>, 256> colors{};
  for (size_t i = 0; i < count; ++i)
    for (size_t channel = 0; channel < 3; ++channel)
      colors[i][channel] = number_at<uint8_t>(bytes, header.palette_begin + i * header.palette_step + 2 - channel);
  std::vector<uint8_t> pixels(numbers.size() * 3);
  uint8_t* out = pixels.data();
  for (const uint8_t number : numbers) {
    if (number >= count) refuse_bmp(concat("a pixel has color ", int{number}, ", and the palette has ", count));
    out = std::copy_n(colors[number].begin(), 3, out);
  }
  return pixels;
}

/// A channel's bits in a pixel, as levels of 8 bits, rounded down as Pillow does.
struct ChannelBits {
  uint32_t mask = 0;
  int shift = 0;

  explicit ChannelBits(uint32_t bits) : mask(bits), shift(bits == 0 ? 0 : std::countr_zero(bits)) {
    const uint32_t most = mask >> shift;
    if ((most & (most + 1)) != 0) refuse_bmp("a channel's bits are not side by side");
  }
  uint8_t level(uint32_t pixel) const {
    const uint32_t most = mask >> shift;
    return most == 0     ? 0
           : most == 255 ? static_cast<uint8_t>(pixel >> shift)
                         : static_cast<uint8_t>(uint64_t{(pixel & mask) >> shift} * 255 / most);
  }
};

/// Pixels of 16, 24 or 32 bits. Alpha is left out.
std::vector<uint8_t> channel_levels(std::span<const uint8_t> bytes, const BmpHeader& header) {
  std::array<uint32_t, 3> masks{};
  if (header.compression == kBitFields)
    for (size_t i = 0; i < 3; ++i) masks[i] = number_at<uint32_t>(bytes, kMasksAt + 4 * i);
  if (masks == std::array<uint32_t, 3>{})
    masks = header.bits == 16 ? std::array<uint32_t, 3>{0x7C00, 0x3E0, 0x1F}
                              : std::array<uint32_t, 3>{0xFF0000, 0xFF00, 0xFF};
  const std::array<ChannelBits, 3> channels{ChannelBits(masks[0]), ChannelBits(masks[1]), ChannelBits(masks[2])};
  const auto coded = pixel_bytes(bytes, header);
  const size_t step = header.bits / 8;
  std::vector<uint8_t> levels;
  levels.reserve(header.pixel_count() * 3);
  for (int64_t y = 0; y < header.height; ++y) {
    const auto row = row_of(coded, header, y);
    for (size_t at = 0; at < row.size(); at += step) {
      uint32_t pixel = 0;
      std::memcpy(&pixel, &row[at], step);  // a row has whole pixels
      for (const auto& channel : channels) levels.push_back(channel.level(pixel));
    }
  }
  return levels;
}

void flip_rows(std::vector<uint8_t>& pixels, size_t row_bytes) {
  for (size_t top = 0, bottom = pixels.size() - row_bytes; top < bottom; top += row_bytes, bottom -= row_bytes)
    std::swap_ranges(&pixels[top], &pixels[top] + row_bytes, &pixels[bottom]);
}

/// The numbers of a palette's colours, in the order of the file.
std::vector<uint8_t> palette_numbers(std::span<const uint8_t> bytes, const BmpHeader& header) {
  const auto coded = pixel_bytes(bytes, header);
  return header.compression == kPlain ? plain_numbers(coded, header) : RunReader(coded, header).read();
}

ForeignPicture empty_picture(const BmpHeader& header, int channels) {
  return {.extent = {static_cast<int>(header.height), static_cast<int>(header.width), channels}, .pixels = {}};
}

}  // namespace

ForeignPicture decode_bmp(std::span<const uint8_t> bytes, int64_t max_pixels) {
  const BmpHeader header = header_of(bytes, max_pixels);
  ForeignPicture picture = empty_picture(header, 3);
  picture.pixels =
      header.bits > 8 ? channel_levels(bytes, header) : colors_of(bytes, header, palette_numbers(bytes, header));
  if (!header.is_top_down) flip_rows(picture.pixels, static_cast<size_t>(header.width) * 3);
  return picture;
}

ForeignPicture bmp_numbers(std::span<const uint8_t> bytes, int64_t max_pixels) {
  const BmpHeader header = header_of(bytes, max_pixels);
  if (header.bits > 8) refuse_bmp(concat(header.bits, " bits per pixel, which are colours"));
  ForeignPicture picture = empty_picture(header, 1);
  picture.pixels = palette_numbers(bytes, header);
  if (!header.is_top_down) flip_rows(picture.pixels, static_cast<size_t>(header.width));
  return picture;
}

}  // namespace penstock::detail
