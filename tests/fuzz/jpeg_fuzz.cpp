// A JPEG file from an untrusted source: its header, our entropy decoder, what pack() would make of it (transcoding,
// index, coefficients), and the way back.
#include "loader/jpeg/base/header.h"
#include "loader/jpeg/store/codebook.h"
#include "loader/jpeg/store/coefficient_sample.h"
#include "loader/pack/encoder.h"
#include "tests/fuzz/fuzz_pictures.h"

namespace penstock {
namespace {

Sample sample_of(const detail::Encoded& encoded, const detail::Codebook& codebook) {
  return {.extent = encoded.extent,
          .encoding = encoded.encoding,
          .bytes = encoded.bytes,
          .seek_index = encoded.seek_index,
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

/// The pixels of the whole picture; nothing if it cannot be decoded.
std::vector<uint8_t> pixels_of(const Sample& sample, int scale, DecodePath path) {
  static DecodeScratch scratch;
  const Region whole{0, 0, (sample.extent.width * scale + 7) / 8, (sample.extent.height * scale + 7) / 8};
  try {
    const Picture picture =
        codec_for(sample.encoding)
            .decode(sample, {.region = whole, .dct_scale = scale, .channels = sample.extent.channels, .path = path},
                    scratch);
    std::vector<uint8_t> pixels;
    for (int y = 0; y < picture.height; ++y) {
      const uint8_t* row = picture.pixels + y * picture.row_stride;
      pixels.insert(pixels.end(), row, row + picture.width * picture.channels);
    }
    return pixels;
  } catch (const Error&) {
    return {};
  }
}

/// All decode paths that take the picture give the same pixels, as pack() promises, however wild its coefficients are.
void compare_pixels(const Sample& sample) {
  for (const int scale : {8, 4, 2, 1}) {
    const auto own = pixels_of(sample, scale, DecodePath::kIndex),
               libjpegs = pixels_of(sample, scale, DecodePath::kFull);
    if (!own.empty() && !libjpegs.empty() && own != libjpegs) std::abort();
  }
}

/// A file that is stored as coefficients without being transcoded comes back byte for byte, as pack() promises.
void check_comes_back(const detail::Encoded& encoded, const detail::Codebook& codebook, std::span<const uint8_t> file) {
  if (encoded.encoding != Encoding::kCoefficients || encoded.is_transcoded) return;
  const auto back = detail::rebuild_jpeg(detail::CoefficientSample::parse(encoded.bytes), codebook);
  if (!std::equal(back.begin(), back.end(), file.begin(), file.end())) std::abort();
}

}  // namespace
}  // namespace penstock

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
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
      compare_pixels(sample_of(encoded, *codebook));
      check_comes_back(encoded, *codebook, file);
    }
  } catch (const Error&) {
  }
  return 0;
}
