// A JPEG file from somebody: header, own entropy decoder, the index that pack() would make, transcoding.
#include "loader/jpeg/geometry.h"
#include "loader/jpeg/header.h"
#include "loader/jpeg/seek_index.h"
#include "loader/jpeg/transcode.h"
#include "tests/fuzz/fuzz_pictures.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  try {
    std::span<const uint8_t> file(data, size);
    detail::JpegHeader header = detail::parse_jpeg_header(file);
    if (int64_t{header.height} * header.width > fuzzing::kMaxPixelCount) return 0;
    std::vector<uint8_t> transcoded, index;
    if (!header.is_one_scan) {
      transcoded = detail::transcode_to_baseline(file);
      file = transcoded;
      header = detail::parse_jpeg_header(file);
    }
    Sample sample{.extent = detail::jpeg_extent(header), .encoding = Encoding::kJpeg, .bytes = file};
    if (header.is_decodable() && header.restart_interval == 0) {
      index = detail::build_seek_index(header, detail::JpegGeometry(header), file);
      sample.index = index;
    }
    fuzzing::decode(sample, DecodePath::kAuto);
    fuzzing::decode(sample, DecodePath::kRegion);
  } catch (const Error&) {
  }
  return 0;
}
