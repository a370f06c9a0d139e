// A picture of a foreign format (WebP, TIFF, GIF, BMP), or the PNG of a mask, from an untrusted source.
#include "loader/import/mask_png.h"
#include "loader/import/picture_formats.h"
#include "tests/fuzz/fuzz_pictures.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  const std::span<const uint8_t> file(data, size);
  try {
    if (const auto* format = detail::foreign_format_of(file)) {
      const auto picture = format->decode(file, fuzzing::kMaxPixelCount);
      const auto [height, width, channels] = picture.extent;
      const size_t wanted = size_t{1} * height * width * channels * (picture.bit_depth / 8);
      if (picture.pixels.size() != wanted) std::abort();
      if (picture.fits_png() && codec_for(Encoding::kPng).probe(detail::to_png(picture)) != picture.extent)
        std::abort();
    } else if (size < 33 || data[16] == 0) {  // a PNG of up to 2^24 columns
      detail::grey_mask_png({file.begin(), file.end()});
    }
  } catch (const Error&) {
  }
  return 0;
}
