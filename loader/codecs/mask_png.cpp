// decode_mask(): a PNG's own numbers, by libspng.
#include "loader/codecs/mask_png.h"

#include <spng.h>

#include <cstring>
#include <memory>
#include <new>

#include "core/error.h"
#include "core/text.h"
#include "loader/files/picture_checks.h"

namespace penstock {
namespace {

constexpr size_t kMaxChunkBytes = size_t{1} << 26;  // as for pictures

struct FreeContext {
  void operator()(spng_ctx* context) const { spng_ctx_free(context); }
};

void check(int code) {
  if (code == SPNG_EMEM) throw std::bad_alloc();
  if (code != 0)
    throw corrupt_error(concat("PNG: ", spng_strerror(code), " (libspng ", code, "); expected a whole mask"));
}

/// Lines of packed numbers of `bits` bits, each line from a byte on, highest bits first.
std::vector<uint8_t> unpacked(const std::vector<uint8_t>& lines, int height, int width, int bits) {
  std::vector<uint8_t> values;
  values.reserve(static_cast<size_t>(height) * static_cast<size_t>(width));
  const size_t line_bytes = (static_cast<size_t>(width) * static_cast<size_t>(bits) + 7) / 8;
  const int in_byte = 8 / bits;
  for (size_t row = 0; row < static_cast<size_t>(height); ++row)
    for (int column = 0; column < width; ++column) {
      const uint8_t byte = lines[row * line_bytes + static_cast<size_t>(column / in_byte)];
      values.push_back(static_cast<uint8_t>(byte >> (8 - bits * (1 + column % in_byte)) & ((1 << bits) - 1)));
    }
  return values;
}

}  // namespace

MaskPixels decode_mask(std::span<const uint8_t> png, int height, int width) {
  const std::unique_ptr<spng_ctx, FreeContext> context(spng_ctx_new(0));
  if (!context) throw std::bad_alloc();
  check(spng_set_chunk_limits(context.get(), kMaxChunkBytes, kMaxChunkBytes));
  check(spng_set_png_buffer(context.get(), png.data(), png.size()));
  spng_ihdr header{};
  check(spng_get_ihdr(context.get(), &header));
  if (header.height != static_cast<uint32_t>(height) || header.width != static_cast<uint32_t>(width))
    throw corrupt_error(concat("a mask of ", header.height, " x ", header.width, "; expected ", height, " x ", width,
                               ", as the picture has"));
  detail::check_pixels(header.height, header.width);
  const bool is_grey = header.color_type == SPNG_COLOR_TYPE_GRAYSCALE;
  const bool is_color = header.color_type == SPNG_COLOR_TYPE_TRUECOLOR && header.bit_depth == 8;
  if (!is_grey && !is_color && header.color_type != SPNG_COLOR_TYPE_INDEXED)
    throw corrupt_error(concat("a mask of PNG colour type ", static_cast<int>(header.color_type), " with ",
                               static_cast<int>(header.bit_depth),
                               " bits; expected grey, a palette, or RGB of 8 bits"));
  size_t byte_count = 0;
  check(spng_decoded_image_size(context.get(), SPNG_FMT_PNG, &byte_count));
  std::vector<uint8_t> decoded(byte_count);
  check(spng_decode_image(context.get(), decoded.data(), decoded.size(), SPNG_FMT_PNG, 0));
  MaskPixels mask{.height = height, .width = width, .bits = is_color ? 24 : header.bit_depth == 16 ? 16 : 8};
  if (mask.bits == 16) {
    mask.words.resize(byte_count / sizeof(uint16_t));
    std::memcpy(mask.words.data(), decoded.data(), byte_count);
  } else if (mask.bits == 24) {
    mask.longs.reserve(byte_count / 3);
    for (size_t at = 0; at + 2 < byte_count; at += 3)
      mask.longs.push_back(decoded[at] + 256 * decoded[at + 1] + 65536 * decoded[at + 2]);
  } else {
    mask.bytes = header.bit_depth == 8 ? std::move(decoded) : unpacked(decoded, height, width, header.bit_depth);
  }
  return mask;
}

}  // namespace penstock
