// jpeg: the region that is asked for, by the path that is asked for; every path gives the same pixels.
#include "loader/codecs/libjpeg.h"
#include "loader/detail/codecs.h"

namespace penstock::detail {
namespace {

class JpegCodec final : public Codec {
 public:
  Picture decode(const Sample& sample, const DecodeRequest& request, DecodeScratch& scratch) const override {
    Decompressor decompressor;
    const Extent extent = decompressor.read_header(sample.bytes);
    check_extent(extent, sample.extent);
    check_channels(extent.channels, request.channels);
    const auto& [region, scale, channels, path] = request;
    switch (path) {
      case DecodePath::kFull:
        return decompressor.decode_whole(scale, channels, scratch.pixels);
      case DecodePath::kAuto:
      case DecodePath::kIndex:
      case DecodePath::kRegion:
        break;
    }
    // A plan may look nowhere.
    if (region.width == 0 || region.height == 0) return {.channels = channels};
    return decompressor.decode(region, scale, channels, scratch.pixels);
  }

  Extent probe(std::span<const uint8_t> bytes) const override { return Decompressor().read_header(bytes); }
};

}  // namespace

const Codec& jpeg_codec() {
  static const JpegCodec codec;
  return codec;
}

}  // namespace penstock::detail
