// decode_bmp() by stb_image, which gives zeros for what a file lacks: its size is checked here.
#include "loader/import/bmp.h"

#include <cstdlib>
#include <cstring>
#include <memory>

#define STBI_ONLY_BMP
#define STBI_NO_STDIO
#define STBI_NO_LINEAR
#define STBI_NO_HDR
#define STB_IMAGE_STATIC
#define STB_IMAGE_IMPLEMENTATION
#include <stb/stb_image.h>

namespace penstock::detail {
namespace {

constexpr const char* kExpected = "; expected a whole BMP picture without compression";
constexpr size_t kHeaderBytes = 14, kLeastInfoBytes = 12;

[[noreturn]] void refuse(const std::string& fact) { throw corrupt_error(concat("BMP: ", fact, kExpected)); }

template <class Number>
Number number_at(std::span<const uint8_t> bytes, size_t at) {
  Number number{};
  if (bytes.size() < at + sizeof number) refuse(concat(bytes.size(), " bytes"));
  std::memcpy(&number, &bytes[at], sizeof number);
  return number;
}

struct Header {
  int64_t height, width;
  uint64_t pixel_offset, row_bytes;
};

Header header_of(std::span<const uint8_t> bytes, int64_t max_pixels) {
  const auto info_bytes = number_at<uint32_t>(bytes, kHeaderBytes);
  const bool is_old = info_bytes == kLeastInfoBytes;  // OS/2's, with sides of 16 bits
  Header header{};
  header.width = is_old ? number_at<uint16_t>(bytes, 18) : number_at<int32_t>(bytes, 18);
  header.height = is_old ? number_at<uint16_t>(bytes, 20) : std::abs(int64_t{number_at<int32_t>(bytes, 22)});
  check_claim(header.height, header.width, bytes, max_pixels);
  const auto bits = number_at<uint16_t>(bytes, is_old ? 24 : 28);
  if (bits < 1 || bits > 32) refuse(concat(bits, " bits per pixel"));
  header.pixel_offset = number_at<uint32_t>(bytes, 10);
  header.row_bytes = (static_cast<uint64_t>(header.width) * bits + 31) / 32 * 4;
  return header;
}

}  // namespace

ForeignPicture decode_bmp(std::span<const uint8_t> bytes, int64_t max_pixels) {
  const Header header = header_of(bytes, max_pixels);
  // The last row may lack its padding.
  const uint64_t needed = header.pixel_offset + header.row_bytes * static_cast<uint64_t>(header.height) - 3;
  if (bytes.size() < needed) refuse(concat(bytes.size(), " bytes for a picture that needs ", needed));
  int width = 0, height = 0, channels = 0;
  const std::unique_ptr<stbi_uc, void (*)(void*)> pixels(
      stbi_load_from_memory(bytes.data(), static_cast<int>(bytes.size()), &width, &height, &channels, 3), std::free);
  if (!pixels) refuse(concat("stb_image says ", stbi_failure_reason()));
  if (width != header.width || height != header.height) refuse(concat("a size of ", height, " x ", width));
  return {.extent = {height, width, 3},
          .pixels = {pixels.get(), pixels.get() + static_cast<size_t>(height) * width * 3}};
}

}  // namespace penstock::detail
