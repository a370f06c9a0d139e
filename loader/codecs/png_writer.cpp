// write_png() by libspng's encoder.
#include "loader/codecs/png_writer.h"

#include <spng.h>

#include <memory>

#include "core/error.h"
#include "core/text.h"

namespace penstock::detail {

std::vector<uint8_t> write_png(std::span<const uint8_t> pixels, const Extent& extent, int bit_depth,
                               std::span<const uint8_t> exif) {
  const auto check = [&](int code) {
    if (code == 0) return;
    throw bug_error(concat("PNG of ", extent.height, " x ", extent.width, " x ", extent.channels, ": ",
                           spng_strerror(code), " (libspng ", code, "); expected that it can be written"));
  };
  const std::unique_ptr<spng_ctx, void (*)(spng_ctx*)> context(spng_ctx_new(SPNG_CTX_ENCODER), spng_ctx_free);
  if (!context) throw std::bad_alloc();
  check(spng_set_option(context.get(), SPNG_ENCODE_TO_BUFFER, 1));
  spng_ihdr header{};
  header.width = static_cast<uint32_t>(extent.width);
  header.height = static_cast<uint32_t>(extent.height);
  header.bit_depth = static_cast<uint8_t>(bit_depth);
  header.color_type = extent.channels == 1 ? SPNG_COLOR_TYPE_GRAYSCALE : SPNG_COLOR_TYPE_TRUECOLOR;
  check(spng_set_ihdr(context.get(), &header));
  spng_exif chunk{exif.size(), const_cast<char*>(reinterpret_cast<const char*>(exif.data()))};
  if (!exif.empty()) spng_set_exif(context.get(), &chunk);  // refuses what does not begin as EXIF does
  // Photographs take a quarter of the time of libspng's own settings (level 6 and the best of all filters for every
  // row), and 4 % more bytes.
  check(spng_set_option(context.get(), SPNG_IMG_COMPRESSION_LEVEL, 1));
  check(spng_set_option(context.get(), SPNG_FILTER_CHOICE, SPNG_FILTER_CHOICE_AVG));
  check(spng_encode_image(context.get(), pixels.data(), pixels.size(), SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE));
  size_t byte_count = 0;
  int code = 0;
  const std::unique_ptr<void, void (*)(void*)> file(spng_get_png_buffer(context.get(), &byte_count, &code), std::free);
  check(code);
  const auto* bytes = static_cast<const uint8_t*>(file.get());
  return {bytes, bytes + byte_count};
}

}  // namespace penstock::detail
