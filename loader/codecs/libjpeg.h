// Decompressor: decodes with libjpeg-turbo and reports its errors as exceptions. It uses the accurate integer DCT and
// fancy upsampling, so that the pixels are the same on every processor.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "augment/plan/plan.h"
#include "augment/render.h"

namespace penstock::detail {

/// Decodes one picture. Any warning is an error, and so is a missing scan: otherwise a damaged stream would decode to
/// grey blocks, and a picture cut off between two scans to blurred ones. CMYK and YCCK are read as Adobe writes them,
/// inverted, and are converted as Pillow does.
///
/// Errors: corrupt_error, whose message states only the fact. Thread-safety: none.
class Decompressor {
 public:
  Decompressor();
  ~Decompressor();

  /// `bytes` must live until the picture is decoded.
  Extent read_header(std::span<const uint8_t> bytes);

  /// The pixels of `region` at scale `scale`/8, and those beside it that libjpeg decodes anyway. They equal those of
  /// the whole picture. The stream is read up to the region's last row, or to its end where that is the picture's last
  /// row. Call it once, after read_header(). The result is in `pixels`.
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
