// decode_tiff() by libtiff: plain levels by rows or tiles, everything else as libtiff makes RGB of it.
#include "loader/import/tiff.h"

#include <tiffio.h>

#include <algorithm>
#include <cstdarg>
#include <cstring>
#include <memory>

namespace penstock::detail {
namespace {

constexpr tmsize_t kMaxAllocation = tmsize_t{1}
                                    << 31;  // of libtiff at one time; a picture of kMaxPixels has 2^30 bytes

struct Memory {
  std::span<const uint8_t> bytes;
  uint64_t at = 0;
  std::string message;  // the first error
  bool has_short_strip = false;
};

Memory& memory_of(thandle_t handle) { return *static_cast<Memory*>(handle); }

tmsize_t read_bytes_of(thandle_t handle, void* out, tmsize_t count) {
  auto& [bytes, at, message, has_short_strip] = memory_of(handle);
  const uint64_t given = at >= bytes.size() ? 0 : std::min<uint64_t>(bytes.size() - at, static_cast<uint64_t>(count));
  if (given > 0) std::memcpy(out, &bytes[at], given);
  at += given;
  return static_cast<tmsize_t>(given);
}
tmsize_t write_nothing(thandle_t, void*, tmsize_t) { return 0; }
toff_t seek_to(thandle_t handle, toff_t offset, int whence) {
  Memory& memory = memory_of(handle);
  memory.at = whence == SEEK_SET ? offset : whence == SEEK_CUR ? memory.at + offset : memory.bytes.size() + offset;
  return memory.at;
}
int close_nothing(thandle_t) { return 0; }
toff_t size_of(thandle_t handle) { return memory_of(handle).bytes.size(); }

int note_error(TIFF*, void* data, const char* module, const char* format, va_list arguments) {
  auto& message = static_cast<Memory*>(data)->message;
  if (!message.empty()) return 1;
  std::array<char, 200> text{};
  std::vsnprintf(text.data(), text.size(), format, arguments);
  message = concat(module == nullptr ? "" : concat(module, ": "), text.data());
  return 1;
}
/// Where the length of an uncompressed strip does not fit to its rows, libtiff only warns, and takes that of the rows:
/// it would read past the end of a strip that is too short. A length of 0, or beyond the file, only means "unknown".
int note_short_strip(TIFF* file, void* data, const char*, const char* format, va_list) {
  if (std::strstr(format, "ignoring and calculating from imagelength") == nullptr) return 1;
  auto& memory = *static_cast<Memory*>(data);
  const uint64_t size = memory.bytes.size(), begin = TIFFGetStrileOffset(file, 0),
                 count = TIFFGetStrileByteCount(file, 0);
  memory.has_short_strip |= count > 0 && begin < size && count <= size - begin;
  return 1;
}

using TiffFile = std::unique_ptr<TIFF, void (*)(TIFF*)>;

TiffFile open_tiff(Memory& memory) {
  const std::unique_ptr<TIFFOpenOptions, void (*)(TIFFOpenOptions*)> options(TIFFOpenOptionsAlloc(),
                                                                             TIFFOpenOptionsFree);
  if (!options) throw std::bad_alloc();
  TIFFOpenOptionsSetMaxSingleMemAlloc(options.get(), kMaxAllocation);
  TIFFOpenOptionsSetErrorHandlerExtR(options.get(), note_error, &memory);
  TIFFOpenOptionsSetWarningHandlerExtR(options.get(), note_short_strip, &memory);
  return {TIFFClientOpenExt("TIFF", "rm", &memory, read_bytes_of, write_nothing, seek_to, close_nothing, size_of,
                            nullptr, nullptr, options.get()),
          TIFFClose};
}

[[noreturn]] void refuse_tiff(const std::string& fact) {
  throw corrupt_error(concat("TIFF: ", fact,
                             "; expected a whole picture of 1 to 16 bits, grey, RGB or with a palette, or up to ",
                             kMaxChannels, " samples per pixel of u8, u16 or f32"));
}

[[noreturn]] void refuse_tiff(const Memory& memory) {
  refuse_tiff(memory.message.empty() ? "cannot be read" : memory.message);
}

struct TiffHeader {
  uint32_t width = 0, height = 0;
  uint16_t bits = 1, samples = 1, photometric = 0, planar = PLANARCONFIG_CONTIG, format = SAMPLEFORMAT_UINT;
  uint16_t orientation = 1;
  bool is_grey() const { return photometric == PHOTOMETRIC_MINISBLACK || photometric == PHOTOMETRIC_MINISWHITE; }
};

/// Whether all samples of a pixel are kept: bands of measurements, which have no colour and no alpha.
bool has_bands(const TiffHeader& header) {
  const bool is_whole = header.bits == 8 || header.bits == 16 || header.bits == 32;
  return is_whole && (header.samples > 4 || header.format == SAMPLEFORMAT_IEEEFP) && header.samples <= kMaxChannels;
}

TiffHeader read_tiff_header(TIFF* file, std::span<const uint8_t> bytes, int64_t max_pixels) {
  TiffHeader header;
  if (TIFFGetField(file, TIFFTAG_IMAGEWIDTH, &header.width) == 0 ||
      TIFFGetField(file, TIFFTAG_IMAGELENGTH, &header.height) == 0)
    refuse_tiff("no width or height");
  check_claim(header.height, header.width, bytes, max_pixels);
  TIFFGetFieldDefaulted(file, TIFFTAG_BITSPERSAMPLE, &header.bits);
  TIFFGetFieldDefaulted(file, TIFFTAG_SAMPLESPERPIXEL, &header.samples);
  TIFFGetFieldDefaulted(file, TIFFTAG_PLANARCONFIG, &header.planar);
  TIFFGetFieldDefaulted(file, TIFFTAG_SAMPLEFORMAT, &header.format);
  TIFFGetFieldDefaulted(file, TIFFTAG_ORIENTATION, &header.orientation);
  if (TIFFGetField(file, TIFFTAG_PHOTOMETRIC, &header.photometric) == 0)
    refuse_tiff("it does not say what its levels mean");
  const bool is_float = header.format == SAMPLEFORMAT_IEEEFP && header.bits == 32;
  if (!is_float && (header.format != SAMPLEFORMAT_UINT || header.bits > 16))
    refuse_tiff(concat("levels of ", header.bits, " bits in sample format ", header.format));
  // Bands have up to 128 bytes per pixel: more than the claims of other formats.
  const int64_t byte_count = int64_t{header.height} * header.width * header.samples * (header.bits / 8);
  if (has_bands(header) && byte_count > kMaxAllocation)
    refuse_tiff(concat(header.samples, " bands of ", byte_count, " bytes altogether"));
  return header;
}

/// The header of EXIF with nothing but the orientation; none for an upright picture.
std::vector<uint8_t> exif_of_orientation(uint16_t orientation) {
  if (orientation < 2 || orientation > 8) return {};
  return {'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0, 0x12, 1, 3, 0, 1, 0, 0, 0, static_cast<uint8_t>(orientation),
          0,   0,   0,  0, 0, 0, 0};
}

/// Levels pixel by pixel, each in bytes of its own: those of 1 to 7 bits in one, of 9 to 15 in two, with their numbers.
/// Keeps the first `kept` of the `samples` levels of each pixel.
class LevelReader {
 public:
  LevelReader(TIFF* file, const TiffHeader& header, const Memory& memory, int kept)
      : file_(file),
        header_(header),
        memory_(memory),
        level_bytes_((header.bits + 7U) / 8),
        file_samples_(header.planar == PLANARCONFIG_SEPARATE ? 1 : header.samples),
        kept_(static_cast<uint16_t>(kept)),
        pixels_(size_t{header.height} * header.width * kept_ * level_bytes_) {}

  std::vector<uint8_t> read() && {
    // In separate planes each sample has rows or tiles of its own.
    for (uint16_t plane = 0; plane < (header_.planar == PLANARCONFIG_SEPARATE ? kept_ : 1); ++plane)
      TIFFIsTiled(file_) != 0 ? read_tiles(plane) : read_rows(plane);
    return std::move(pixels_);
  }

 private:
  static constexpr uint64_t kMostTilePixels = uint64_t{1} << 20;  // of a picture that is smaller than its tile

  size_t packed_bytes(uint32_t width) const { return (size_t{width} * file_samples_ * header_.bits + 7) / 8; }

  void read_rows(uint16_t plane) {
    std::vector<uint8_t> row(packed_bytes(header_.width));
    if (TIFFScanlineSize(file_) != static_cast<tmsize_t>(row.size()))
      refuse_tiff(concat("rows of ", TIFFScanlineSize(file_), " bytes"));
    for (uint32_t y = 0; y < header_.height; ++y) {
      if (TIFFReadScanline(file_, row.data(), y, plane) < 0) refuse_tiff(memory_);
      put(row, y, 0, header_.width, plane);
    }
  }

  void read_tiles(uint16_t plane) {
    uint32_t tile_width = 0, tile_height = 0;
    TIFFGetField(file_, TIFFTAG_TILEWIDTH, &tile_width);
    TIFFGetField(file_, TIFFTAG_TILELENGTH, &tile_height);
    // A tile may be larger than the picture, but not by much.
    const uint64_t tile_pixels = uint64_t{tile_height} * tile_width;
    if (tile_pixels == 0 || tile_pixels > uint64_t{header_.height} * header_.width + kMostTilePixels)
      refuse_tiff(concat("tiles of ", tile_height, " x ", tile_width));
    const size_t row_bytes = packed_bytes(tile_width);
    if (TIFFTileSize(file_) != static_cast<tmsize_t>(row_bytes * tile_height)) refuse_tiff("tiles of another size");
    std::vector<uint8_t> tile(row_bytes * tile_height);
    for (uint32_t y = 0; y < header_.height; y += tile_height)
      for (uint32_t x = 0; x < header_.width; x += tile_width) {
        if (TIFFReadTile(file_, tile.data(), x, y, 0, plane) < 0) refuse_tiff(memory_);
        for (uint32_t row = 0; row < std::min(tile_height, header_.height - y); ++row)
          put(std::span(tile).subspan(row * row_bytes, row_bytes), y + row, x, std::min(tile_width, header_.width - x),
              plane);
      }
  }

  /// The levels of a row, of which the first has the highest bits, as numbers in bytes of their own.
  std::span<const uint8_t> unpacked(std::span<const uint8_t> row, uint32_t width) {
    if (header_.bits % 8 == 0) return row;
    levels_.clear();
    uint32_t bits = 0, count = 0;
    size_t at = 0;
    for (size_t i = 0; i < size_t{width} * file_samples_; ++i) {
      for (; count < header_.bits; count += 8) bits = bits << 8 | row[at++];
      count -= header_.bits;
      const uint32_t level = bits >> count & ((1U << header_.bits) - 1);
      levels_.push_back(static_cast<uint8_t>(level));
      if (level_bytes_ == 2) levels_.push_back(static_cast<uint8_t>(level >> 8));
    }
    return levels_;
  }

  void put(std::span<const uint8_t> row, uint32_t y, uint32_t x, uint32_t count, uint16_t plane) {
    const uint8_t* pixel = unpacked(row, count).data();
    uint8_t* out = &pixels_[((size_t{y} * header_.width + x) * kept_ + plane) * level_bytes_];
    const size_t pixel_bytes = file_samples_ * level_bytes_, kept_bytes = kept_ * level_bytes_;
    for (uint32_t i = 0; i < count; ++i, pixel += pixel_bytes, out += kept_bytes)
      std::memcpy(out, pixel, std::min(kept_bytes, pixel_bytes));
  }

  TIFF* file_;
  const TiffHeader& header_;
  const Memory& memory_;
  const size_t level_bytes_, file_samples_;
  const uint16_t kept_;
  std::vector<uint8_t> pixels_, levels_;
};

/// White is 0, so that all levels are turned around.
void invert(std::vector<uint8_t>& pixels, uint16_t bits) {
  const auto most = static_cast<uint16_t>((1U << bits) - 1);  // of 9 to 15 bits the second byte has bits % 8
  for (size_t i = 0; i < pixels.size(); ++i)
    pixels[i] = static_cast<uint8_t>(~pixels[i] & (bits > 8 && i % 2 == 1 ? most >> 8 : 255));
}

/// Whether the pixels are plain levels, of which alpha can be left out. libtiff itself multiplies colours by alpha.
bool has_plain_levels(const TiffHeader& header) {
  const bool is_rgb = header.photometric == PHOTOMETRIC_RGB && header.samples >= 3;
  if (has_bands(header)) return true;
  return header.bits >= 8 && header.bits <= 16 && (header.is_grey() || is_rgb) && header.samples <= 4;
}

/// Up to 8 bits in any form: as libtiff makes RGB of it, not turned.
std::vector<uint8_t> read_as_rgb(TIFF* file, const TiffHeader& header, const Memory& memory) {
  std::array<char, 1024> reason{};
  if (TIFFRGBAImageOK(file, reason.data()) == 0) refuse_tiff(reason.data());
  const size_t pixel_count = size_t{header.height} * header.width, channels = header.is_grey() ? 1 : 3;
  std::vector<uint32_t> raster(pixel_count);
  // With ORIENTATION_TOPLEFT libtiff would turn some orientations and not others. The raster begins at the top.
  const int orientation = header.orientation >= 1 && header.orientation <= 8 ? header.orientation : ORIENTATION_TOPLEFT;
  if (TIFFReadRGBAImageOriented(file, header.width, header.height, raster.data(), orientation, 1) == 0)
    refuse_tiff(memory);
  std::vector<uint8_t> pixels(pixel_count * channels);
  for (size_t i = 0; i < pixel_count; ++i) {
    pixels[i * channels] = static_cast<uint8_t>(TIFFGetR(raster[i]));
    if (channels == 1) continue;
    pixels[i * 3 + 1] = static_cast<uint8_t>(TIFFGetG(raster[i]));
    pixels[i * 3 + 2] = static_cast<uint8_t>(TIFFGetB(raster[i]));
  }
  return pixels;
}

[[noreturn]] void refuse_form(const TiffHeader& header) {
  refuse_tiff(concat(header.samples, " samples of ", header.bits, " bits per pixel in planar configuration ",
                     header.planar, " and photometric interpretation ", header.photometric));
}

/// The channels of the picture. `wants_numbers`: those of a mask, which are neither coloured nor inverted.
int checked_channels(const TiffHeader& header, bool wants_numbers) {
  if (wants_numbers) {
    const bool is_number = header.photometric == PHOTOMETRIC_MINISBLACK || header.photometric == PHOTOMETRIC_PALETTE;
    if (!is_number || header.samples != 1 || header.bits > 16) refuse_form(header);
    return 1;
  }
  const bool has_alpha = header.photometric == PHOTOMETRIC_RGB && header.samples > 3;
  if (!has_plain_levels(header) && (header.bits > 8 || has_alpha)) refuse_form(header);
  return has_bands(header) ? header.samples : header.is_grey() ? 1 : 3;
}

ForeignPicture decode_as(std::span<const uint8_t> bytes, int64_t max_pixels, bool wants_numbers) {
  Memory memory{.bytes = bytes, .message = {}};
  const TiffFile file = open_tiff(memory);
  if (!file) refuse_tiff(memory);
  const TiffHeader header = read_tiff_header(file.get(), bytes, max_pixels);
  if (memory.has_short_strip) refuse_tiff("cut short: StripByteCounts does not fit to the size of the picture");
  const int channels = checked_channels(header, wants_numbers);
  const bool is_plain = wants_numbers || has_plain_levels(header);
  ForeignPicture picture{.extent = {static_cast<int>(header.height), static_cast<int>(header.width), channels},
                         .bit_depth = header.bits <= 8    ? 8
                                      : header.bits <= 16 ? 16
                                                          : 32,
                         .pixels = {},
                         .exif = wants_numbers ? std::vector<uint8_t>() : exif_of_orientation(header.orientation)};
  picture.pixels =
      is_plain ? LevelReader(file.get(), header, memory, channels).read() : read_as_rgb(file.get(), header, memory);
  if (!memory.message.empty()) refuse_tiff(memory);
  if (!wants_numbers && is_plain && !has_bands(header) && header.photometric == PHOTOMETRIC_MINISWHITE)
    invert(picture.pixels, header.bits);
  return picture;
}

}  // namespace

ForeignPicture decode_tiff(std::span<const uint8_t> bytes, int64_t max_pixels) {
  return decode_as(bytes, max_pixels, false);
}

ForeignPicture tiff_numbers(std::span<const uint8_t> bytes, int64_t max_pixels) {
  return decode_as(bytes, max_pixels, true);
}

}  // namespace penstock::detail
