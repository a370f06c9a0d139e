// A seek index that lies, beside a JPEG that is whole.
#include "tests/fuzz/fuzz_pictures.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  const auto& file = fuzzing::small_jpeg();
  const Sample sample{
      .extent = {40, 52, 3}, .encoding = Encoding::kJpeg, .bytes = file, .index = std::span<const uint8_t>(data, size)};
  try {
    fuzzing::decode(sample, DecodePath::kIndex);
  } catch (const Error&) {
  }
  return 0;
}
