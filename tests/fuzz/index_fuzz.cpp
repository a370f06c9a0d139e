// A wrong seek index for an intact JPEG. The first byte chooses the JPEG: a colour one, or a grey and wide one whose
// MCU rows have several points.
#include "tests/fuzz/fuzz_pictures.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  static const auto wide = fuzzing::patterned_jpeg({16, 300, 1});
  if (size == 0) return 0;
  const bool is_wide = data[0] % 2 == 1;
  const Sample sample{.extent = is_wide ? Extent{16, 300, 1} : fuzzing::kSmallExtent,
                      .encoding = Encoding::kJpeg,
                      .bytes = is_wide ? wide : fuzzing::small_jpeg(),
                      .seek_index = std::span<const uint8_t>(data + 1, size - 1)};
  try {
    fuzzing::decode(sample, DecodePath::kIndex);
  } catch (const Error&) {
  }
  return 0;
}
