// coefficients: a JPEG stored as quantised coefficients; our own pixel stage gives the pixels that libjpeg-turbo would.
#include "core/text.h"
#include "loader/codecs/codec.h"
#include "loader/codecs/jpeg_scratch.h"
#include "loader/files/picture_checks.h"
#include "loader/jpeg/base/geometry.h"
#include "loader/jpeg/base/header.h"
#include "loader/jpeg/store/coefficient_sample.h"
#include "loader/jpeg/store/store_source.h"

namespace penstock::detail {
namespace {

class CoefficientCodec final : public Codec {
 public:
  Picture decode(const Sample& sample, const DecodeRequest& request, DecodeScratch& scratch) const override {
    if (sample.codebook == nullptr)
      throw bug_error(concat("coefficients: sample ", sample.id, " has no codebook; expected that of its shard"));
    if (request.region.width == 0 || request.region.height == 0) return {.channels = request.channels};
    const auto parts = CoefficientSample::parse(sample.bytes);
    if (request.path == DecodePath::kRegion || request.path == DecodePath::kFull) {
      // These paths mean libjpeg-turbo: the file is rebuilt, and then decoded as if it had been kept.
      const auto file = rebuild_jpeg(parts, *sample.codebook);
      Sample kept = sample;
      kept.encoding = Encoding::kJpeg;
      kept.bytes = file;
      return codec_for(Encoding::kJpeg).decode(kept, request, scratch);
    }
    const JpegHeader header = parts.jpeg_header();
    const Extent extent = jpeg_extent(header);
    check_pixels(extent.height, extent.width);
    check_extent(extent, sample.extent);
    check_channels(extent.channels, request.channels);
    const JpegGeometry geometry(header);
    StoreSource source(parts.store, geometry, *sample.codebook);
    return decode_pixels(header, geometry, source, request.region, request.dct_scale, request.channels,
                         scratch.jpeg().pixels);
  }

  bool decodes_region_alone(const Sample&, DecodePath path) const override {
    return path == DecodePath::kAuto || path == DecodePath::kIndex;
  }

  /// libjpeg-turbo may refuse the rebuilt file for its head or tail, which only that path reads.
  void check_further(const Sample& sample, DecodeScratch& scratch) const override {
    const Region whole{0, 0, sample.extent.width, sample.extent.height};
    decode(sample, {.region = whole, .channels = sample.extent.channels, .path = DecodePath::kFull}, scratch);
  }

  Extent probe(std::span<const uint8_t> bytes) const override {
    return jpeg_extent(parse_jpeg_header(CoefficientSample::parse(bytes).header));
  }

  std::vector<uint8_t> file(const Sample& sample) const override {
    return rebuild_jpeg(CoefficientSample::parse(sample.bytes), *sample.codebook);
  }
};

const CoefficientCodec kCodec;
const RegisteredCodec kCoefficients{
    Encoding::kCoefficients, {.name = "JPEG coefficients", .extensions = {".jpg"}, .is_scalable = true}, kCodec};

}  // namespace

}  // namespace penstock::detail
