// A JPEG file from somebody: header, own entropy decoder, what pack() would make of it (transcoding, index,
// coefficients), and back.
#include "loader/detail/encoder.h"
#include "loader/jpeg/codebook.h"
#include "loader/jpeg/coefficient_sample.h"
#include "loader/jpeg/header.h"
#include "tests/fuzz/fuzz_pictures.h"

namespace {

using namespace penstock;

Sample sample_of(const detail::Encoded& encoded, const detail::Codebook& codebook) {
  return {.extent = encoded.extent,
          .encoding = encoded.encoding,
          .bytes = encoded.bytes,
          .index = encoded.index,
          .codebook = &codebook};
}

void decode_by_every_path(const Sample& sample) {
  for (const auto path : {DecodePath::kAuto, DecodePath::kIndex, DecodePath::kRegion, DecodePath::kFull}) {
    try {
      fuzzing::decode(sample, path);
    } catch (const Error&) {
    }
  }
}

/// What is stored as coefficients unless it was changed comes back to the byte: pack() promises that.
void check_comes_back(const detail::Encoded& encoded, const detail::Codebook& codebook, std::span<const uint8_t> file) {
  if (encoded.encoding != Encoding::kCoefficients || encoded.is_transcoded) return;
  const auto back = detail::rebuild_jpeg(detail::CoefficientSample::parse(encoded.bytes), codebook);
  if (!std::equal(back.begin(), back.end(), file.begin(), file.end())) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto codebook = fuzzing::small_codebook();
  const std::span<const uint8_t> file(data, size);
  const std::vector<uint8_t> copy(data, data + size);
  try {
    const detail::JpegHeader header = detail::parse_jpeg_header(file);
    if (int64_t{header.height} * header.width > fuzzing::kMaxPixelCount) return 0;
    const Extent extent = codec_for(Encoding::kJpeg).probe(file);
    decode_by_every_path({.extent = extent, .encoding = Encoding::kJpeg, .bytes = file});
    for (const auto encode : {Encode::kKeep, Encode::kAuto}) {
      DecodeScratch scratch;
      const auto encoded =
          detail::Encoder({.encode = encode}, codebook).encode(0, {copy, Encoding::kJpeg, extent}, scratch);
      decode_by_every_path(sample_of(encoded, *codebook));
      check_comes_back(encoded, *codebook, file);
    }
  } catch (const Error&) {
  }
  return 0;
}
