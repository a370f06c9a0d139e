// Field pictures: an array's pixels are used where they are, files are decoded whole.
#include "loader/codecs/field_picture.h"

#include "loader/codecs/npy.h"
#include "loader/codecs/png_levels.h"
#include "loader/files/picture_checks.h"

namespace penstock {
namespace {

/// The array as a view of a picture.
Picture picture_of(const detail::NpyArray& array) {
  const auto type = pixel_type_of(array.dtype);
  const size_t dimensions = array.shape.size();
  const int64_t channels = dimensions == 3 ? array.shape[2] : 1;
  if (!type || (dimensions != 2 && dimensions != 3) || channels < 1 || channels > kMaxChannels)
    throw corrupt_error(concat("an array of ", dtype_name(array.dtype), " in ", dimensions, " dimensions with ",
                               channels, " channels; expected u8, u16 or f32, H x W or H x W x C, and 1 to ",
                               kMaxChannels, " channels"));
  detail::check_pixels(array.shape[0], array.shape[1]);
  return {.pixels = array.data.data(),
          .row_stride = static_cast<ptrdiff_t>(level_bytes(*type)) * array.shape[1] * channels,
          .height = static_cast<int>(array.shape[0]),
          .width = static_cast<int>(array.shape[1]),
          .channels = static_cast<int>(channels),
          .type = *type};
}

}  // namespace

FieldPictureKind probe_field_picture(std::span<const uint8_t> bytes) {
  if (detail::is_npy(bytes)) {
    const Picture picture = picture_of(detail::parse_npy(bytes));
    return {{picture.height, picture.width, picture.channels}, picture.type};
  }
  const Extent extent = codec_for(detect_encoding(bytes)).probe(bytes);
  return {extent, detail::is_deep_png(bytes) ? PixelType::kU16 : PixelType::kU8};
}

Picture decode_field_picture(std::span<const uint8_t> bytes, DecodeScratch& scratch) {
  if (detail::is_npy(bytes)) return picture_of(detail::parse_npy(bytes));
  if (detail::is_deep_png(bytes)) return detail::decode_deep_png(bytes, scratch);
  const Encoding encoding = detect_encoding(bytes);
  const Extent extent = codec_for(encoding).probe(bytes);
  const Sample sample{.extent = extent, .encoding = encoding, .bytes = bytes};
  const DecodeRequest whole{.region = {0, 0, extent.width, extent.height}, .channels = extent.channels};
  return codec_for(encoding).decode(sample, whole, scratch);
}

}  // namespace penstock
