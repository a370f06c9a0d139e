// raw: pixels as they are, H x W x C, of u8, u16 or f32; grey of u8 is replicated when RGB is wanted, otherwise nothing
// is copied.
#include <cstdint>

#include "loader/codecs/codec.h"
#include "loader/codecs/npy.h"
#include "loader/codecs/png_writer.h"
#include "loader/files/picture_checks.h"

namespace penstock::detail {
namespace {

class RawCodec final : public Codec {
 public:
  explicit RawCodec(PixelType type) : type_(type) {}

  Picture decode(const Sample& sample, const DecodeRequest& request, DecodeScratch& scratch) const override {
    const int channels = request.channels;
    const auto& [height, width, stored_channels] = sample.extent;
    check_pixels(height, width);
    check_channels(stored_channels, channels);
    const size_t pixel_count = static_cast<size_t>(height) * width, level_bytes = penstock::level_bytes(type_);
    if (sample.bytes.size() != pixel_count * stored_channels * level_bytes) {
      throw corrupt_error(concat(sample.bytes.size(), " bytes of raw pixels; expected ",
                                 pixel_count * stored_channels * level_bytes, " for ", height, " x ", width, " x ",
                                 stored_channels));
    }
    const auto stride = static_cast<ptrdiff_t>(level_bytes) * width * channels;
    if (stored_channels == channels) return {sample.bytes.data(), stride, height, width, channels, 0, 0, type_};
    if (type_ != PixelType::kU8)
      throw corrupt_error(concat("picture of ", pixels_text(type_, stored_channels), "; expected ", channels,
                                 ", as the data set's manifest says"));
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

  std::vector<uint8_t> file(const Sample& sample) const override {
    const auto& [height, width, channels] = sample.extent;
    if (!is_raster(type_, channels)) return write_png(sample.bytes, sample.extent);
    return npy_file({dtype_of(type_), {height, width, channels}, sample.bytes});
  }

 private:
  PixelType type_;
};

const RawCodec kU8(PixelType::kU8), kU16(PixelType::kU16), kF32(PixelType::kF32);
const RegisteredCodec kRaw{Encoding::kRaw, {.name = "raw", .extensions = {".png"}, .is_lossless = true}, kU8};
const RegisteredCodec kRawU16{Encoding::kRawU16, {.name = "raw u16", .extensions = {}, .is_lossless = true}, kU16};
const RegisteredCodec kRawF32{Encoding::kRawF32, {.name = "raw f32", .extensions = {}, .is_lossless = true}, kF32};

}  // namespace

}  // namespace penstock::detail
