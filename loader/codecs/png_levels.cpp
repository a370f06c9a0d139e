// decode_deep_png(): libspng's levels as they are, of which alpha is left out.
#include "loader/codecs/png_levels.h"

#include <spng.h>

#include <cstring>
#include <memory>
#include <new>

#include "loader/files/picture_checks.h"

namespace penstock::detail {
namespace {

constexpr size_t kMaxChunkBytes = size_t{1} << 26;  // as in the codec of PNG
constexpr size_t kBitDepthAt = 24;                  // in the file, whose first chunk is IHDR

void check_deep(int code) {
  if (code == SPNG_EMEM) throw std::bad_alloc();
  if (code != 0)
    throw corrupt_error(concat("PNG: ", spng_strerror(code), " (libspng ", code, "); expected a whole picture"));
}

}  // namespace

bool is_deep_png(std::span<const uint8_t> bytes) {
  constexpr uint8_t kSignature[] = {0x89, 'P', 'N', 'G'};
  return bytes.size() > kBitDepthAt && std::equal(std::begin(kSignature), std::end(kSignature), bytes.begin()) &&
         bytes[kBitDepthAt] == 16;
}

Picture decode_deep_png(std::span<const uint8_t> bytes, DecodeScratch& scratch) {
  const std::unique_ptr<spng_ctx, void (*)(spng_ctx*)> context(spng_ctx_new(0), spng_ctx_free);
  if (!context) throw std::bad_alloc();
  check_deep(spng_set_chunk_limits(context.get(), kMaxChunkBytes, kMaxChunkBytes));
  check_deep(spng_set_png_buffer(context.get(), bytes.data(), bytes.size()));
  spng_ihdr header{};
  check_deep(spng_get_ihdr(context.get(), &header));
  check_pixels(header.height, header.width);
  const bool is_grey =
      header.color_type == SPNG_COLOR_TYPE_GRAYSCALE || header.color_type == SPNG_COLOR_TYPE_GRAYSCALE_ALPHA;
  const bool has_alpha =
      header.color_type == SPNG_COLOR_TYPE_GRAYSCALE_ALPHA || header.color_type == SPNG_COLOR_TYPE_TRUECOLOR_ALPHA;
  const size_t channels = is_grey ? 1 : 3, stored_channels = channels + (has_alpha ? 1 : 0);
  const size_t pixel_count = size_t{header.height} * header.width;
  size_t byte_count = 0;
  check_deep(spng_decoded_image_size(context.get(), SPNG_FMT_PNG, &byte_count));
  if (byte_count != pixel_count * stored_channels * sizeof(uint16_t))
    throw corrupt_error(concat("PNG: ", byte_count, " bytes of pixels; expected 16 bits per channel"));
  scratch.pixels.resize(byte_count);
  check_deep(spng_decode_image(context.get(), scratch.pixels.data(), byte_count, SPNG_FMT_PNG, 0));
  check_deep(spng_decode_chunks(context.get()));
  const size_t pixel_bytes = channels * sizeof(uint16_t), stored_bytes = stored_channels * sizeof(uint16_t);
  uint8_t* const pixels = scratch.pixels.data();
  for (size_t i = 1; has_alpha && i < pixel_count; ++i)
    std::memmove(pixels + i * pixel_bytes, pixels + i * stored_bytes, pixel_bytes);
  return {pixels,
          static_cast<ptrdiff_t>(header.width * pixel_bytes),
          static_cast<int>(header.height),
          static_cast<int>(header.width),
          static_cast<int>(channels),
          0,
          0,
          PixelType::kU16};
}

}  // namespace penstock::detail
