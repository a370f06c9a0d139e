// grey_mask_png() by libspng, which gives rows of packed numbers in its raw format.
#include "loader/import/mask_png.h"

#include <spng.h>

#include <memory>
#include <new>

#include "loader/codecs/png_writer.h"
#include "loader/files/picture_checks.h"
#include "loader/import/picture_formats.h"

namespace penstock::detail {
namespace {

void check_mask(int code) {
  if (code == SPNG_EMEM) throw std::bad_alloc();
  if (code != 0)
    throw corrupt_error(concat("mask: ", spng_strerror(code), " (libspng ", code, "); expected a whole PNG"));
}

/// One number per pixel, from rows in which `bit_depth` bits hold one, the first in the highest bits.
std::vector<uint8_t> unpacked(const std::vector<uint8_t>& packed, const spng_ihdr& header) {
  const size_t row_bytes = packed.size() / header.height;
  const unsigned bits = header.bit_depth, mask = (1U << bits) - 1, per_byte = 8 / bits;
  std::vector<uint8_t> values;
  values.reserve(size_t{header.height} * header.width);
  for (uint32_t row = 0; row < header.height; ++row)
    for (uint32_t column = 0; column < header.width; ++column) {
      const uint8_t byte = packed[row * row_bytes + column / per_byte];
      values.push_back(static_cast<uint8_t>(byte >> (8 - bits - bits * (column % per_byte)) & mask));
    }
  return values;
}

}  // namespace

std::vector<uint8_t> grey_mask_png(std::vector<uint8_t> png) {
  if (const ForeignFormat* format = foreign_format_of(png)) {
    if (format->numbers == nullptr)
      throw corrupt_error(concat("mask: is ", format->name, ", which has colours alone; expected a PNG"));
    return to_png(format->numbers(png, kMaxPixels));
  }
  const std::unique_ptr<spng_ctx, void (*)(spng_ctx*)> context(spng_ctx_new(0), spng_ctx_free);
  if (!context) throw std::bad_alloc();
  constexpr size_t kMaxChunkBytes = size_t{1} << 26;
  check_mask(spng_set_chunk_limits(context.get(), kMaxChunkBytes, kMaxChunkBytes));
  check_mask(spng_set_png_buffer(context.get(), png.data(), png.size()));
  spng_ihdr header{};
  check_mask(spng_get_ihdr(context.get(), &header));
  check_pixels(header.height, header.width);
  const bool is_grey = header.color_type == SPNG_COLOR_TYPE_GRAYSCALE;
  if (!is_grey && header.color_type != SPNG_COLOR_TYPE_INDEXED)
    throw corrupt_error(
        "mask: has colours or alpha; expected a PNG with a palette or grey levels, whose numbers are the mask");
  if (is_grey && header.bit_depth >= 8) return png;
  size_t byte_count = 0;
  check_mask(spng_decoded_image_size(context.get(), SPNG_FMT_RAW, &byte_count));
  std::vector<uint8_t> packed(byte_count);
  check_mask(spng_decode_image(context.get(), packed.data(), packed.size(), SPNG_FMT_RAW, 0));
  const Extent extent{static_cast<int>(header.height), static_cast<int>(header.width), 1};
  return write_png(unpacked(packed, header), extent);
}

}  // namespace penstock::detail
