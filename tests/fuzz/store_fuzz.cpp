// A sample of stored coefficients from somebody, read with a codebook that is whole; its first byte chooses whether the
// rest is that, or the codebook of a sample that is whole.
#include "loader/detail/encoder.h"
#include "loader/jpeg/codebook.h"
#include "loader/jpeg/coefficient_sample.h"
#include "loader/jpeg/header.h"
#include "tests/fuzz/fuzz_pictures.h"

namespace {

using namespace penstock;

/// Ten times the small picture.
class Pictures final : public Source {
 public:
  uint64_t size() const override { return 10; }
  std::vector<std::string> class_names() const override { return {"c"}; }
  int64_t label(uint64_t) const override { return 0; }
  SourceSample read(uint64_t) const override { return {fuzzing::small_jpeg(), Encoding::kJpeg, {40, 52, 3}}; }
  std::string fingerprint() const override { return ""; }
};

void decode(std::span<const uint8_t> bytes, const detail::Codebook& codebook) {
  const auto header = detail::parse_jpeg_header(detail::CoefficientSample::parse(bytes).header);
  const Sample sample{.extent = detail::jpeg_extent(header),
                      .encoding = Encoding::kCoefficients,
                      .bytes = bytes,
                      .codebook = &codebook};
  fuzzing::decode(sample, DecodePath::kIndex);
  if (int64_t{header.height} * header.width <= fuzzing::kMaxPixelCount)
    detail::rebuild_jpeg(detail::CoefficientSample::parse(bytes), codebook);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Pictures pictures;
  static const auto codebook = detail::codebook_for(pictures, {}, 1);
  static const auto whole = [] {
    DecodeScratch scratch;
    return detail::Encoder({}, codebook).encode(0, pictures.read(0), scratch);
  }();
  if (size == 0) return 0;
  const std::span<const uint8_t> rest(data + 1, size - 1);
  try {
    if (data[0] % 2 == 0)
      decode(rest, *codebook);
    else
      decode(whole.bytes, detail::Codebook::parse(rest));
  } catch (const Error&) {
  }
  return 0;
}
