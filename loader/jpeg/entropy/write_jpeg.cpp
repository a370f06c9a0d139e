// write_jpeg(): calls libjpeg's compressor.
#include "loader/jpeg/entropy/write_jpeg.h"

#include <cstdlib>

#include "core/error.h"
#include "core/text.h"
#include "loader/jpeg/base/libjpeg_errors-inl.h"

namespace penstock::detail {
namespace {

/// Only compress() calls libjpeg. It returns false when a call failed.
class Compressor {
 public:
  Compressor() { info_.err = &errors_.manager; }
  ~Compressor() {
    jpeg_destroy_compress(&info_);
    std::free(file_);
  }
  Compressor(const Compressor&) = delete;
  Compressor& operator=(const Compressor&) = delete;

  bool compress(const Picture& picture, int quality) {
    if (setjmp(errors_.jump)) return false;
    jpeg_create_compress(&info_);
    jpeg_mem_dest(&info_, &file_, &byte_count_);
    info_.image_width = static_cast<JDIMENSION>(picture.width);
    info_.image_height = static_cast<JDIMENSION>(picture.height);
    info_.input_components = picture.channels;
    info_.in_color_space = picture.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&info_);
    jpeg_set_quality(&info_, quality, TRUE);
    info_.dct_method = JDCT_ISLOW;
    jpeg_start_compress(&info_, TRUE);
    while (info_.next_scanline < info_.image_height) {
      // libjpeg does not write to the rows that it compresses, although its parameter is not const.
      auto* row = const_cast<JSAMPROW>(picture.pixels + ptrdiff_t{info_.next_scanline} * picture.row_stride);
      jpeg_write_scanlines(&info_, &row, 1);
    }
    jpeg_finish_compress(&info_);
    return true;
  }

  std::vector<uint8_t> file() const { return {file_, file_ + byte_count_}; }
  const char* message() const { return errors_.message; }

 private:
  jpeg_compress_struct info_{};
  LibjpegErrors errors_;
  unsigned char* file_ = nullptr;
  unsigned long byte_count_ = 0;
};

}  // namespace

std::vector<uint8_t> write_jpeg(const Picture& picture, int quality) {
  Compressor compressor;
  if (compressor.compress(picture, quality)) return compressor.file();
  throw bug_error(concat("JPEG of ", picture.height, " x ", picture.width, " x ", picture.channels, ", quality ",
                         quality, ": ", compressor.message(), "; expected that libjpeg can write it"));
}

}  // namespace penstock::detail
