// decode_webp() by libwebp and libwebpdemux.
#include "loader/import/webp.h"

#include <webp/decode.h>
#include <webp/demux.h>

#include <algorithm>
#include <array>
#include <memory>

namespace penstock::detail {
namespace {

constexpr const char* kExpected = "; expected a whole WebP picture";

using Demuxer = std::unique_ptr<WebPDemuxer, void (*)(WebPDemuxer*)>;

/// The EXIF block, or nothing. Some programs put "Exif\0\0" before it, as JPEGs have it.
std::vector<uint8_t> exif_of(const WebPDemuxer* demuxer) {
  WebPChunkIterator chunk;
  std::vector<uint8_t> exif;
  if (WebPDemuxGetChunk(demuxer, "EXIF", 1, &chunk) != 0)
    exif.assign(chunk.chunk.bytes, chunk.chunk.bytes + chunk.chunk.size);
  WebPDemuxReleaseChunkIterator(&chunk);
  constexpr std::array<uint8_t, 6> kPrefix{'E', 'x', 'i', 'f', 0, 0};
  if (exif.size() >= kPrefix.size() && std::equal(kPrefix.begin(), kPrefix.end(), exif.begin()))
    exif.erase(exif.begin(), exif.begin() + kPrefix.size());
  return exif;
}

/// The first frame's bytes, which are those of a WebP file without animation. It must cover the canvas.
std::span<const uint8_t> first_frame(const WebPDemuxer* demuxer, int height, int width) {
  WebPIterator frame;
  if (WebPDemuxGetFrame(demuxer, 1, &frame) == 0) throw corrupt_error(concat("WebP: no frame", kExpected));
  const std::span<const uint8_t> bytes(frame.fragment.bytes, frame.fragment.size);  // into the file
  const bool covers = frame.x_offset == 0 && frame.y_offset == 0 && frame.width == width && frame.height == height &&
                      frame.complete != 0;
  WebPDemuxReleaseIterator(&frame);
  if (!covers)
    throw corrupt_error(
        concat("WebP: the first frame does not cover the picture of ", height, " x ", width, kExpected));
  return bytes;
}

}  // namespace

ForeignPicture decode_webp(std::span<const uint8_t> bytes, int64_t max_pixels) {
  const WebPData data{bytes.data(), bytes.size()};
  const Demuxer demuxer(WebPDemux(&data), WebPDemuxDelete);
  if (!demuxer) throw corrupt_error(concat("WebP: ", bytes.size(), " bytes that are no whole file", kExpected));
  const auto height = static_cast<int>(WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_HEIGHT));
  const auto width = static_cast<int>(WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_WIDTH));
  check_claim(height, width, bytes, max_pixels);
  const auto frame = first_frame(demuxer.get(), height, width);
  WebPBitstreamFeatures features;
  if (WebPGetFeatures(frame.data(), frame.size(), &features) != VP8_STATUS_OK || features.width != width ||
      features.height != height)
    throw corrupt_error(concat("WebP: the frame is not one of ", height, " x ", width, " pixels", kExpected));
  ForeignPicture picture{.extent = {height, width, 3}, .pixels = {}, .exif = exif_of(demuxer.get())};
  picture.pixels.resize(static_cast<size_t>(height) * width * 3);
  if (WebPDecodeRGBInto(frame.data(), frame.size(), picture.pixels.data(), picture.pixels.size(), width * 3) == nullptr)
    throw corrupt_error(concat("WebP: the pixels of ", height, " x ", width, " cannot be decoded", kExpected));
  return picture;
}

}  // namespace penstock::detail
