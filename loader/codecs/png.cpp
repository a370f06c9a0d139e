// png: decodes by libspng, to 8 bits per channel; alpha is dropped, not blended.
//
// The pixels are those of Pillow's convert("L") and convert("RGB"): a palette becomes RGB, alpha and tRNS are ignored
// and the colour stays as it is stored, and gamma is not applied. 16-bit levels keep their high byte.
#include <spng.h>

#include <memory>
#include <new>

#include "loader/codecs/codec.h"
#include "loader/codecs/png_metadata.h"
#include "loader/files/orientation.h"
#include "loader/files/picture_checks.h"

namespace penstock::detail {
namespace {

/// The limit for one ancillary chunk, and for all that are kept together. It refuses a text chunk that unpacks to
/// gigabytes.
constexpr size_t kMaxChunkBytes = size_t{1} << 26;

struct FreeContext {
  void operator()(spng_ctx* context) const { spng_ctx_free(context); }
};
using Context = std::unique_ptr<spng_ctx, FreeContext>;

void check(int code) {
  if (code == SPNG_EMEM) throw std::bad_alloc();
  if (code != 0)
    throw corrupt_error(concat("PNG: ", spng_strerror(code), " (libspng ", code, "); expected a whole picture"));
}

Context open_png(std::span<const uint8_t> bytes) {
  Context context(spng_ctx_new(0));
  if (!context) throw std::bad_alloc();
  check(spng_set_chunk_limits(context.get(), kMaxChunkBytes, kMaxChunkBytes));
  check(spng_set_png_buffer(context.get(), bytes.data(), bytes.size()));
  return context;
}

spng_ihdr read_header(const Context& context) {
  spng_ihdr header{};
  check(spng_get_ihdr(context.get(), &header));
  check_pixels(header.height, header.width);
  return header;
}

bool is_grey(const spng_ihdr& header) {
  return header.color_type == SPNG_COLOR_TYPE_GRAYSCALE || header.color_type == SPNG_COLOR_TYPE_GRAYSCALE_ALPHA;
}

Extent extent_of(const spng_ihdr& header) {
  return {static_cast<int>(header.height), static_cast<int>(header.width), is_grey(header) ? 1 : 3};
}

class PngCodec final : public Codec {
 public:
  Picture decode(const Sample& sample, const DecodeRequest& request, DecodeScratch& scratch) const override {
    const int channels = request.channels;
    const Context context = open_png(sample.bytes);
    const spng_ihdr header = read_header(context);
    const Extent extent = extent_of(header);
    check_extent(extent, sample.extent);
    check_channels(extent.channels, channels);
    // libspng gives grey only for grey pictures of up to 8 bits without alpha; for the others it gives RGB with three
    // equal levels.
    const bool gives_grey = header.color_type == SPNG_COLOR_TYPE_GRAYSCALE && header.bit_depth <= 8 && channels == 1;
    const int decoded_channels = gives_grey ? 1 : 3;
    const size_t pixel_count = static_cast<size_t>(extent.height) * extent.width;
    scratch.pixels.resize(pixel_count * decoded_channels);
    const int format = gives_grey ? SPNG_FMT_G8 : SPNG_FMT_RGB8;
    check(spng_decode_image(context.get(), scratch.pixels.data(), scratch.pixels.size(), format, 0));
    check(spng_decode_chunks(context.get()));  // reads up to the end, so that what follows the pixels is checked too
    if (decoded_channels != channels)
      for (size_t i = 0; i < pixel_count; ++i) scratch.pixels[i] = scratch.pixels[i * 3];
    return {scratch.pixels.data(), ptrdiff_t{extent.width} * channels, extent.height, extent.width, channels, 0, 0};
  }

  Extent probe(std::span<const uint8_t> bytes) const override { return extent_of(read_header(open_png(bytes))); }

  uint8_t orientation(std::span<const uint8_t> bytes) const override {
    const PngMetadata metadata = read_png_metadata(bytes);
    return stored_orientation(metadata.exif, metadata.xmp);
  }
};

const PngCodec kCodec;
const RegisteredCodec kPng{Encoding::kPng,
                           {.name = "PNG",
                            .extensions = {".png"},
                            .signature = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'},
                            .is_lossless = true},
                           kCodec};

}  // namespace

}  // namespace penstock::detail
