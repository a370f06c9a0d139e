// raw: pixels as they are, H x W x C; grey is replicated when RGB is wanted, otherwise nothing is copied.
#include "loader/codecs/codec.h"
#include "loader/codecs/png_writer.h"
#include "loader/files/picture_checks.h"

namespace penstock::detail {
namespace {

class RawCodec final : public Codec {
 public:
  Picture decode(const Sample& sample, const DecodeRequest& request, DecodeScratch& scratch) const override {
    const int channels = request.channels;
    const auto& [height, width, stored_channels] = sample.extent;
    check_pixels(height, width);
    check_channels(stored_channels, channels);
    const size_t pixel_count = static_cast<size_t>(height) * width;
    if (sample.bytes.size() != pixel_count * stored_channels) {
      throw corrupt_error(concat(sample.bytes.size(), " bytes of raw pixels; expected ", pixel_count * stored_channels,
                                 " for ", height, " x ", width, " x ", stored_channels));
    }
    if (stored_channels == channels)
      return {sample.bytes.data(), ptrdiff_t{width} * channels, height, width, channels, 0, 0};
    scratch.pixels.resize(pixel_count * 3);
    uint8_t* out = scratch.pixels.data();
    for (const uint8_t level : sample.bytes) {
      out[0] = out[1] = out[2] = level;
      out += 3;
    }
    return {scratch.pixels.data(), ptrdiff_t{width} * 3, height, width, 3, 0, 0};
  }

  Extent probe(std::span<const uint8_t> bytes) const override {
    throw bug_error(
        concat(bytes.size(), " raw bytes were probed; expected an encoded picture, raw ones have no header"));
  }

  std::vector<uint8_t> file(const Sample& sample) const override { return write_png(sample.bytes, sample.extent); }
};

const RawCodec kCodec;
const RegisteredCodec kRaw{Encoding::kRaw, {.name = "raw", .extensions = {".png"}, .is_lossless = true}, kCodec};

}  // namespace

}  // namespace penstock::detail
