// CoefficientSample: reads and writes two lengths and the three parts after them.
#include "loader/jpeg/store/coefficient_sample.h"

#include <cstring>

#include "core/error.h"
#include "core/text.h"
#include "loader/jpeg/base/geometry.h"
#include "loader/jpeg/entropy/rebuild.h"
#include "loader/jpeg/store/codebook.h"
#include "loader/jpeg/store/store_source.h"

namespace penstock::detail {
namespace {

constexpr size_t kLengthBytes = 8;

}  // namespace

CoefficientSample CoefficientSample::parse(std::span<const uint8_t> bytes) {
  uint32_t lengths[2] = {};
  if (bytes.size() >= kLengthBytes) std::memcpy(lengths, bytes.data(), kLengthBytes);
  const uint64_t header_bytes = lengths[0], tail_bytes = lengths[1];
  if (bytes.size() < kLengthBytes || header_bytes + tail_bytes > bytes.size() - kLengthBytes) {
    throw corrupt_error(concat("coefficients: ", bytes.size(), " bytes with a header of ", header_bytes,
                               " and a tail of ", tail_bytes, "; expected that they fit"));
  }
  const auto rest = bytes.subspan(kLengthBytes);
  return {rest.first(header_bytes), rest.subspan(header_bytes, tail_bytes), rest.subspan(header_bytes + tail_bytes)};
}

std::vector<uint8_t> CoefficientSample::bytes() const {
  const uint32_t lengths[2] = {static_cast<uint32_t>(header.size()), static_cast<uint32_t>(tail.size())};
  std::vector<uint8_t> out(kLengthBytes);
  std::memcpy(out.data(), lengths, kLengthBytes);
  for (const auto& part : {header, tail, store}) out.insert(out.end(), part.begin(), part.end());
  return out;
}

JpegHeader CoefficientSample::jpeg_header() const {
  const JpegHeader found = parse_jpeg_header(header);
  if (found.is_decodable()) return found;
  throw corrupt_error(concat("coefficients: a JPEG header of ", found.component_count, " components, ",
                             found.is_one_scan ? "one" : "not one", " sequential scan; expected 1 or 3 in one scan"));
}

std::vector<uint8_t> rebuild_jpeg(const CoefficientSample& sample, const Codebook& codebook) {
  const JpegHeader header = sample.jpeg_header();
  const JpegGeometry geometry(header);
  StoreSource source(sample.store, geometry, codebook);
  std::vector<uint8_t> file(sample.header.begin(), sample.header.end());
  const auto scan = encode_scan(header, geometry, source);
  file.insert(file.end(), scan.begin(), scan.end());
  file.insert(file.end(), sample.tail.begin(), sample.tail.end());
  return file;
}

}  // namespace penstock::detail
