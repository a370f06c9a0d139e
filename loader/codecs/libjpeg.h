// Decompressor: libjpeg-turbo behind exceptions. Accurate integer DCT, fancy upsampling: the pixels are the same on
// every processor.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "augment/plan.h"
#include "augment/render.h"

namespace penstock::detail {

/// Decodes one picture. Any warning is an error, and so is a missing scan: a damaged stream would otherwise decode to
/// grey blocks, and a picture cut off between two scans to blurred ones. CMYK and YCCK are taken as Adobe writes them,
/// inverted, and converted as Pillow does.
///
/// Errors: corrupt_error, the fact alone. Thread-safety: none.
class Decompressor {
 public:
  Decompressor();
  ~Decompressor();

  /// `bytes` must live until the picture is decoded.
  Extent read_header(std::span<const uint8_t> bytes);

  /// The pixels of `region` at scale `scale`/8, and those beside it that libjpeg decodes anyhow: the same as those of
  /// the whole picture. The stream is read up to the region's last row, to its end where that is the picture's last.
  /// Call once, behind read_header(). The result lies in `pixels`.
  Picture decode(const Region& region, int scale, int channels, std::vector<uint8_t>& pixels);
  /// The whole picture at that scale.
  Picture decode_whole(int scale, int channels, std::vector<uint8_t>& pixels);

 private:
  class Libjpeg;
  struct Window;
  Picture read(const Window& window, int channels, std::vector<uint8_t>& pixels);

  std::unique_ptr<Libjpeg> libjpeg_;  // its types stay out of this header
};

}  // namespace penstock::detail
