// jpeg: decodes the region by the path that is asked for; every path gives the same pixels.
#include "loader/codecs/codec.h"
#include "loader/codecs/jpeg_scratch.h"
#include "loader/codecs/libjpeg.h"
#include "loader/files/orientation.h"
#include "loader/files/picture_checks.h"
#include "loader/jpeg/base/geometry.h"
#include "loader/jpeg/base/header.h"

namespace penstock::detail {
namespace {

Picture decode_by_libjpeg(const Sample& sample, const DecodeRequest& request, DecodeScratch& scratch) {
  Decompressor decompressor;
  const Extent extent = decompressor.read_header(sample.bytes);
  check_extent(extent, sample.extent);
  check_channels(extent.channels, request.channels);
  if (request.path == DecodePath::kFull)
    return decompressor.decode_whole(request.dct_scale, request.channels, scratch.pixels);
  return decompressor.decode(request.region, request.dct_scale, request.channels, scratch.pixels);
}

/// Decodes by our own entropy decoder and pixel stage.
Picture decode_by_index(const Sample& sample, const JpegHeader& header, const DecodeRequest& request,
                        JpegScratch& scratch) {
  const Extent extent = jpeg_extent(header);
  check_pixels(extent.height, extent.width);
  check_extent(extent, sample.extent);
  check_channels(extent.channels, request.channels);
  const JpegGeometry geometry(header);
  scratch.huffman.open(header, geometry, sample.bytes, SeekIndex(sample.seek_index, geometry));
  return decode_pixels(header, geometry, scratch.huffman, request.region, request.dct_scale, request.channels,
                       scratch.pixels);
}

class JpegCodec final : public Codec {
 public:
  Picture decode(const Sample& sample, const DecodeRequest& request, DecodeScratch& scratch) const override {
    // A plan may look at no pixel at all.
    if (request.region.width == 0 || request.region.height == 0) return {.channels = request.channels};
    const bool may_use_index = request.path == DecodePath::kIndex || request.path == DecodePath::kAuto;
    if (may_use_index && !sample.seek_index.empty()) {
      const JpegHeader header = parse_jpeg_header(sample.bytes);
      if (header.is_decodable() && header.restart_interval == 0)
        return decode_by_index(sample, header, request, scratch.jpeg());
    }
    return decode_by_libjpeg(sample, request, scratch);
  }

  bool decodes_region_alone(const Sample& sample, DecodePath path) const override {
    return !sample.seek_index.empty() && (path == DecodePath::kAuto || path == DecodePath::kIndex);
  }

  void check_further(const Sample& sample, DecodeScratch& scratch) const override {
    const Region whole{0, 0, sample.extent.width, sample.extent.height};
    const auto decode_by = [&](DecodePath path) {
      decode(sample, {.region = whole, .channels = sample.extent.channels, .path = path}, scratch);
    };
    decode_by(DecodePath::kFull);
    if (sample.seek_index.empty()) return decode_by(DecodePath::kIndex);
    const JpegHeader header = parse_jpeg_header(sample.bytes);
    if (header.is_decodable() && header.restart_interval == 0)
      check_seek_index(header, sample.bytes, sample.seek_index);
  }

  Extent probe(std::span<const uint8_t> bytes) const override { return Decompressor().read_header(bytes); }
  uint8_t orientation(std::span<const uint8_t> bytes) const override {
    const JpegHeader header = parse_jpeg_header(bytes);
    return stored_orientation(header.exif, header.xmp);
  }
};

const JpegCodec kCodec;
const RegisteredCodec kJpeg{
    Encoding::kJpeg,
    {.name = "JPEG", .extensions = {".jpg", ".jpeg", ".jpe"}, .signature = {0xFF, 0xD8, 0xFF}, .is_scalable = true},
    kCodec};

}  // namespace

}  // namespace penstock::detail
