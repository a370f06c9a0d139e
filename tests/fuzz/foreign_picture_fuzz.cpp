// A picture or a mask of a foreign format (WebP, TIFF, GIF, BMP, PNM), or the PNG of a mask, from an untrusted source.
#include "loader/import/mask_png.h"
#include "loader/import/picture_formats.h"
#include "tests/fuzz/fuzz_pictures.h"

namespace {

using Decode = penstock::detail::ForeignPicture (*)(std::span<const uint8_t>, int64_t);

void decode_by(Decode decode, std::span<const uint8_t> file) {
  using namespace penstock;
  try {
    const auto picture = decode(file, fuzzing::kMaxPixelCount);
    const auto [height, width, channels] = picture.extent;
    const size_t wanted = size_t{1} * height * width * channels * (picture.bit_depth / 8);
    if (picture.pixels.size() != wanted) std::abort();
    fuzzing::read_all(picture.pixels);
    if (picture.fits_png() && codec_for(Encoding::kPng).probe(detail::to_png(picture)) != picture.extent) std::abort();
  } catch (const Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  const std::span<const uint8_t> file(data, size);
  if (const auto* format = detail::foreign_format_of(file)) {
    decode_by(format->decode, file);
    if (format->numbers != nullptr) decode_by(format->numbers, file);
    return 0;
  }
  try {
    if (size < 33 || data[16] == 0)  // a PNG of up to 2^24 columns
      detail::grey_mask_png({file.begin(), file.end()});
  } catch (const Error&) {
  }
  return 0;
}
