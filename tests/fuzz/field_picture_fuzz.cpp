// What a field of kind picture holds, as a loader decodes it: an array of NumPy, a PNG of 8 or 16 bits, or a JPEG.
#include "loader/codecs/field_picture.h"
#include "tests/fuzz/fuzz_pictures.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  const std::span<const uint8_t> bytes(data, size);
  try {
    const auto [extent, type] = probe_field_picture(bytes);
    if (int64_t{extent.height} * extent.width > fuzzing::kMaxPixelCount) return 0;
    DecodeScratch scratch;
    const Picture picture = decode_field_picture(bytes, scratch);
    const Extent found{picture.height, picture.width, picture.channels};
    if (found != extent || picture.type != type) std::abort();
    const size_t row_bytes =
        static_cast<size_t>(picture.width) * static_cast<size_t>(picture.channels) * level_bytes(type);
    for (int row = 0; row < picture.height; ++row)
      fuzzing::read_all({picture.pixels + row * picture.row_stride, row_bytes});
  } catch (const Error&) {
  }
  return 0;
}
