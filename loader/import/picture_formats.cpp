// ForeignFormat: which format a file has.
#include "loader/import/picture_formats.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "loader/codecs/codec.h"
#include "loader/codecs/png_writer.h"
#include "loader/import/bmp.h"
#include "loader/import/gif.h"
#include "loader/import/pnm.h"
#include "loader/import/tiff.h"
#include "loader/import/webp.h"

namespace penstock::detail {
namespace {

bool begins_with(std::span<const uint8_t> bytes, std::string_view text, size_t at = 0) {
  return bytes.size() >= at + text.size() && std::equal(text.begin(), text.end(), bytes.begin() + at,
                                                        [](char a, uint8_t b) { return static_cast<uint8_t>(a) == b; });
}

bool is_webp(std::span<const uint8_t> bytes) { return begins_with(bytes, "RIFF") && begins_with(bytes, "WEBP", 8); }
bool is_gif(std::span<const uint8_t> bytes) { return begins_with(bytes, "GIF87a") || begins_with(bytes, "GIF89a"); }
bool is_bmp(std::span<const uint8_t> bytes) { return begins_with(bytes, "BM"); }
bool is_pnm(std::span<const uint8_t> bytes) {
  return bytes.size() > 2 && bytes[0] == 'P' && bytes[1] >= '1' && bytes[1] <= '6' && std::isspace(bytes[2]) != 0;
}
bool is_tiff(std::span<const uint8_t> bytes) {
  using namespace std::string_view_literals;
  return begins_with(bytes, "II*\0"sv) || begins_with(bytes, "MM\0*"sv) || begins_with(bytes, "II+\0"sv) ||
         begins_with(bytes, "MM\0+"sv);  // the last two are BigTIFF
}

const std::array<ForeignFormat, 5>& formats() {
  static const std::array<ForeignFormat, 5> formats{
      {{"WebP", {".webp"}, true, is_webp, decode_webp, nullptr},
       {"TIFF", {".tif", ".tiff"}, true, is_tiff, decode_tiff, tiff_numbers},
       {"GIF", {".gif"}, true, is_gif, decode_gif, gif_numbers},
       {"BMP", {".bmp"}, false, is_bmp, decode_bmp, bmp_numbers},
       {"PNM", {".ppm", ".pgm", ".pbm", ".pnm"}, false, is_pnm, decode_pnm, pnm_numbers}}};
  return formats;
}

}  // namespace

const ForeignFormat* foreign_format_of(std::span<const uint8_t> bytes) {
  for (const auto& format : formats())
    if (format.is_it(bytes)) return &format;
  return nullptr;
}

bool is_picture_name(const std::filesystem::path& path) {
  if (has_picture_extension(path)) return true;
  std::string extension = path.extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  for (const auto& format : formats())
    if (std::find(format.extensions.begin(), format.extensions.end(), extension) != format.extensions.end())
      return true;
  return false;
}

std::vector<uint8_t> to_png(const ForeignPicture& picture) {
  return write_png(picture.pixels, picture.extent, picture.bit_depth, picture.exif);
}

}  // namespace penstock::detail
