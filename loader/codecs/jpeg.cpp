// jpeg: by libjpeg-turbo, whole pictures, accurate integer DCT, so that the pixels are the same on every processor.
//
// Any warning is an error: a damaged stream would otherwise decode to grey blocks. CMYK and YCCK are taken as Adobe
// writes them, inverted, and converted as Pillow does.
#include <csetjmp>
#include <cstdio>

// Behind <cstdio>: it uses FILE and size_t without including anything.
#include <jpeglib.h>

#include "loader/detail/codecs.h"

namespace penstock::detail {
namespace {

struct ErrorState {
  jpeg_error_mgr manager;  // first: libjpeg hands back a pointer to it
  std::jmp_buf jump;
  char message[JMSG_LENGTH_MAX];
};

[[noreturn]] void fail(j_common_ptr info) {
  auto* state = reinterpret_cast<ErrorState*>(info->err);
  info->err->format_message(info, state->message);
  std::longjmp(state->jump, 1);
}

void on_message(j_common_ptr info, int level) {
  if (level < 0) fail(info);  // below 0: a warning; above: a trace
}

/// A libjpeg decompressor. libjpeg reports by longjmp, which must not pass objects with destructors: every call of it
/// stands in one of the members below, which hold none, and they return false when it failed.
class Decompressor {
 public:
  Decompressor() {
    info_.err = jpeg_std_error(&errors_.manager);
    errors_.manager.error_exit = fail;
    errors_.manager.emit_message = on_message;
    errors_.message[0] = '\0';
    if (!create()) throw_error();
  }
  ~Decompressor() { jpeg_destroy_decompress(&info_); }
  Decompressor(const Decompressor&) = delete;
  Decompressor& operator=(const Decompressor&) = delete;

  Extent read_header(std::span<const uint8_t> bytes) {
    if (!read_markers(bytes.data(), bytes.size())) throw_error();
    check_pixels(info_.image_height, info_.image_width);
    const int components = info_.num_components;
    if (components != 1 && components != 3 && components != 4)
      throw corrupt_error(concat("JPEG of ", components, " components; expected 1, 3 or 4"));
    return {static_cast<int>(info_.image_height), static_cast<int>(info_.image_width), components == 1 ? 1 : 3};
  }

  bool is_cmyk() const { return info_.num_components == 4; }

  /// `row` holds one row of CMYK, when that is what the picture is.
  void decode(int channels, uint8_t* pixels, uint8_t* row) {
    if (!decode_rows(channels, pixels, row)) throw_error();
  }

 private:
  [[noreturn]] void throw_error() const {
    throw corrupt_error(concat("JPEG: ", errors_.message, "; expected a whole picture"));
  }

  bool create() {
    if (setjmp(errors_.jump)) return false;
    jpeg_create_decompress(&info_);
    return true;
  }

  bool read_markers(const uint8_t* bytes, size_t byte_count) {
    if (setjmp(errors_.jump)) return false;
    jpeg_mem_src(&info_, bytes, byte_count);
    jpeg_read_header(&info_, TRUE);
    return true;
  }

  bool decode_rows(int channels, uint8_t* pixels, uint8_t* row) {
    if (setjmp(errors_.jump)) return false;
    info_.out_color_space = is_cmyk() ? JCS_CMYK : channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    info_.dct_method = JDCT_ISLOW;
    jpeg_start_decompress(&info_);
    while (info_.output_scanline < info_.output_height) {
      uint8_t* out = pixels + size_t{info_.output_scanline} * info_.output_width * channels;
      JSAMPROW target = is_cmyk() ? row : out;
      jpeg_read_scanlines(&info_, &target, 1);
      if (is_cmyk()) cmyk_to_rgb(row, info_.output_width, out);
    }
    jpeg_finish_decompress(&info_);
    return true;
  }

  /// R = K - (255 - C) * K / 255, rounded, with C, M, Y, K as stored: 255 is no ink.
  static void cmyk_to_rgb(const uint8_t* in, size_t width, uint8_t* out) {
    for (size_t i = 0; i < width; ++i, in += 4) {
      for (int channel = 0; channel < 3; ++channel) {
        const int product = (255 - in[channel]) * in[3] + 128;
        *out++ = static_cast<uint8_t>(in[3] - ((product + (product >> 8)) >> 8));
      }
    }
  }

  jpeg_decompress_struct info_{};
  ErrorState errors_{};
};

class JpegCodec final : public Codec {
 public:
  Picture decode(const Sample& sample, const DecodeRequest& request, DecodeScratch& scratch) const override {
    const int channels = request.channels;
    Decompressor decompressor;
    const Extent extent = decompressor.read_header(sample.bytes);
    check_extent(extent, sample.extent);
    check_channels(extent.channels, channels);
    const size_t byte_count = static_cast<size_t>(extent.height) * extent.width * channels;
    const size_t cmyk_row_bytes = decompressor.is_cmyk() ? size_t{4} * extent.width : 0;
    scratch.pixels.resize(byte_count + cmyk_row_bytes);
    decompressor.decode(channels, scratch.pixels.data(), scratch.pixels.data() + byte_count);
    return {scratch.pixels.data(), ptrdiff_t{extent.width} * channels, extent.height, extent.width, channels, 0, 0};
  }

  Extent probe(std::span<const uint8_t> bytes) const override { return Decompressor().read_header(bytes); }
};

}  // namespace

const Codec& jpeg_codec() {
  static const JpegCodec codec;
  return codec;
}

}  // namespace penstock::detail
