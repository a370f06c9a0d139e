// Decompressor: libjpeg-turbo behind exceptions. Accurate integer DCT, fancy upsampling: the pixels are the same on
// every processor.
#pragma once

#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <span>
#include <vector>

// Behind <cstdio>: it uses FILE and size_t without including anything.
#include <jpeglib.h>

#include "augment/plan.h"
#include "augment/render.h"

namespace penstock::detail {

/// Decodes one picture. Any warning is an error: a damaged stream would otherwise decode to grey blocks. CMYK and YCCK
/// are taken as Adobe writes them, inverted, and converted as Pillow does.
///
/// Errors: corrupt_error, the fact alone. Thread-safety: none.
///
/// libjpeg reports by longjmp, which must not pass objects with destructors: every call of it stands in one of the
/// private members, which hold none, and they return false when it failed.
class Decompressor {
 public:
  Decompressor();
  ~Decompressor() { jpeg_destroy_decompress(&info_); }
  Decompressor(const Decompressor&) = delete;
  Decompressor& operator=(const Decompressor&) = delete;

  /// `bytes` must live until the picture is decoded.
  Extent read_header(std::span<const uint8_t> bytes);

  /// The pixels of `region` at scale `scale`/8, and those beside it that libjpeg decodes anyhow: the same as those of
  /// the whole picture. The stream is read up to the region's last row, to its end where that is the picture's last.
  /// Call once, behind read_header(). The result lies in `pixels`.
  Picture decode(const Region& region, int scale, int channels, std::vector<uint8_t>& pixels);
  /// The whole picture at that scale.
  Picture decode_whole(int scale, int channels, std::vector<uint8_t>& pixels);

 private:
  struct ErrorState {
    jpeg_error_mgr manager;  // first: libjpeg hands back a pointer to it
    std::jmp_buf jump;
    char message[JMSG_LENGTH_MAX];
  };
  /// Whole rows or a part of them, pixels at the scale.
  struct Window {
    JDIMENSION x, y, width, height;
  };

  [[noreturn]] static void fail(j_common_ptr info);
  static void on_message(j_common_ptr info, int level);
  [[noreturn]] void throw_error() const;

  bool create();
  bool read_markers(const uint8_t* bytes, size_t byte_count);
  bool start(int scale, int channels);
  bool crop(Window* window);
  bool read_rows(const Window& window, int channels, uint8_t* pixels, uint8_t* cmyk_row);

  bool is_cmyk() const { return info_.num_components == 4; }
  bool may_crop() const;
  void widen(Window& window) const;
  Picture read(const Window& window, int channels, std::vector<uint8_t>& pixels);

  jpeg_decompress_struct info_{};
  ErrorState errors_{};
};

}  // namespace penstock::detail
