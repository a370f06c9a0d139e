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

/// The first frame: its bytes, which are those of a WebP file without animation, and where the canvas has it.
struct Frame {
  std::span<const uint8_t> bytes;  // into the file
  int top, left, height, width;
};

Frame first_frame(const WebPDemuxer* demuxer, int height, int width) {
  WebPIterator found;
  if (WebPDemuxGetFrame(demuxer, 1, &found) == 0) throw corrupt_error(concat("WebP: no frame", kExpected));
  const Frame frame{
      {found.fragment.bytes, found.fragment.size}, found.y_offset, found.x_offset, found.height, found.width};
  const bool is_complete = found.complete != 0;
  WebPDemuxReleaseIterator(&found);
  if (!is_complete || frame.top < 0 || frame.left < 0 || frame.height < 1 || frame.width < 1 ||
      frame.height > height - frame.top || frame.width > width - frame.left)
    throw corrupt_error(concat("WebP: the first frame has ", frame.height, " x ", frame.width, " pixels at ", frame.top,
                               ", ", frame.left, " of a canvas of ", height, " x ", width, kExpected));
  WebPBitstreamFeatures features;
  if (WebPGetFeatures(frame.bytes.data(), frame.bytes.size(), &features) != VP8_STATUS_OK ||
      features.width != frame.width || features.height != frame.height)
    throw corrupt_error(
        concat("WebP: the frame is not one of ", frame.height, " x ", frame.width, " pixels", kExpected));
  return frame;
}

}  // namespace

ForeignPicture decode_webp(std::span<const uint8_t> bytes, int64_t max_pixels) {
  const WebPData data{bytes.data(), bytes.size()};
  const Demuxer demuxer(WebPDemux(&data), WebPDemuxDelete);
  if (!demuxer) throw corrupt_error(concat("WebP: ", bytes.size(), " bytes that are no whole file", kExpected));
  const auto height = static_cast<int>(WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_HEIGHT));
  const auto width = static_cast<int>(WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_WIDTH));
  check_claim(height, width, bytes, max_pixels);
  const Frame frame = first_frame(demuxer.get(), height, width);
  ForeignPicture picture{.extent = {height, width, 3}, .pixels = {}, .exif = exif_of(demuxer.get())};
  // Where the frame leaves the canvas free it is black: transparent, and alpha is left out.
  picture.pixels.resize(static_cast<size_t>(height) * width * 3);
  const size_t begin = (static_cast<size_t>(frame.top) * width + frame.left) * 3;
  if (WebPDecodeRGBInto(frame.bytes.data(), frame.bytes.size(), &picture.pixels[begin], picture.pixels.size() - begin,
                        width * 3) == nullptr)
    throw corrupt_error(
        concat("WebP: the pixels of ", frame.height, " x ", frame.width, " cannot be decoded", kExpected));
  return picture;
}

}  // namespace penstock::detail
