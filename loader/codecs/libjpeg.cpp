// Decompressor: every call into libjpeg-turbo that decodes.
#include "loader/codecs/libjpeg.h"

#include <algorithm>

#include "loader/files/picture_checks.h"
#include "loader/jpeg/base/libjpeg_errors-inl.h"
#include "loader/jpeg/entropy/libjpeg_scans-inl.h"

namespace penstock::detail {
namespace {

/// R = K - (255 - C) * K / 255, rounded, with C, M, Y, K as stored: 255 is no ink.
void cmyk_to_rgb(const uint8_t* in, size_t width, uint8_t* out) {
  for (size_t i = 0; i < width; ++i, in += 4) {
    for (int channel = 0; channel < 3; ++channel) {
      const int product = (255 - in[channel]) * in[3] + 128;
      *out++ = static_cast<uint8_t>(in[3] - ((product + (product >> 8)) >> 8));
    }
  }
}

}  // namespace

/// Whole rows or a part of them, in pixels at the DCT scale.
struct Decompressor::Window {
  JDIMENSION x, y, width, height;
};

/// Every call of libjpeg is in one of the member functions that return bool; these return false when the call failed.
class Decompressor::Libjpeg {
 public:
  Libjpeg() {
    info_.err = &errors_.manager;
    check(create());
  }
  ~Libjpeg() { jpeg_destroy_decompress(&info_); }
  Libjpeg(const Libjpeg&) = delete;
  Libjpeg& operator=(const Libjpeg&) = delete;

  void check(bool has_worked) const {
    if (!has_worked) errors_.raise();
  }

  const jpeg_decompress_struct& info() const { return info_; }
  bool is_cmyk() const { return info_.num_components == 4; }

  bool read_markers(const uint8_t* bytes, size_t byte_count) {
    if (setjmp(errors_.jump)) return false;
    jpeg_mem_src(&info_, bytes, byte_count);
    jpeg_read_header(&info_, TRUE);
    return true;
  }

  bool start(int scale, int channels) {
    if (setjmp(errors_.jump)) return false;
    info_.out_color_space = is_cmyk() ? JCS_CMYK : channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    info_.dct_method = JDCT_ISLOW;
    info_.scale_num = static_cast<unsigned>(scale);
    info_.scale_denom = 8;
    jpeg_start_decompress(&info_);
    return true;
  }

  /// Whether the picture may be cropped. libjpeg-turbo 2.1.5 computes a wrong width for a cropped component that is
  /// decoded at a larger scale than the picture and is nevertheless upsampled (sampling factors of 4, at a reduced
  /// scale). The right part of such a component is not written.
  bool may_crop() const {
    const auto is_quarter = [&](const jpeg_component_info& component) {
      return info_.max_h_samp_factor > 2 * component.h_samp_factor;
    };
    return info_.scale_num == 8 || std::none_of(info_.comp_info, info_.comp_info + info_.num_components, is_quarter);
  }

  /// Moves the window's left edge to where an MCU begins.
  bool crop(Window* window) {
    if (setjmp(errors_.jump)) return false;
    jpeg_crop_scanline(&info_, &window->x, &window->width);
    return true;
  }

  bool read_rows(const Window& window, int channels, uint8_t* pixels, uint8_t* cmyk_row) {
    if (setjmp(errors_.jump)) return false;
    if (window.y > 0) jpeg_skip_scanlines(&info_, window.y);
    while (info_.output_scanline < window.y + window.height) {
      uint8_t* out = pixels + size_t{info_.output_scanline - window.y} * window.width * static_cast<size_t>(channels);
      JSAMPROW target = is_cmyk() ? cmyk_row : out;
      jpeg_read_scanlines(&info_, &target, 1);
      if (is_cmyk()) cmyk_to_rgb(cmyk_row, window.width, out);
    }
    if (info_.output_scanline == info_.output_height) jpeg_finish_decompress(&info_);
    return true;
  }

 private:
  bool create() {
    if (setjmp(errors_.jump)) return false;
    jpeg_create_decompress(&info_);
    return true;
  }

  jpeg_decompress_struct info_{};
  LibjpegErrors errors_;
};

Decompressor::Decompressor() : libjpeg_(std::make_unique<Libjpeg>()) {}
Decompressor::~Decompressor() = default;

Extent Decompressor::read_header(std::span<const uint8_t> bytes) {
  libjpeg_->check(libjpeg_->read_markers(bytes.data(), bytes.size()));
  const auto& info = libjpeg_->info();
  check_pixels(info.image_height, info.image_width);
  const int components = info.num_components;
  if (components != 1 && components != 3 && components != 4)
    throw corrupt_error(concat("JPEG of ", components, " components; expected 1, 3 or 4"));
  return {static_cast<int>(info.image_height), static_cast<int>(info.image_width), components == 1 ? 1 : 3};
}

Picture Decompressor::decode(const Region& region, int scale, int channels, std::vector<uint8_t>& pixels) {
  libjpeg_->check(libjpeg_->start(scale, channels));
  check_scans(libjpeg_->info());
  const JDIMENSION full_width = libjpeg_->info().output_width;
  const int height = static_cast<int>(libjpeg_->info().output_height), width = static_cast<int>(full_width);
  if (region.x < 0 || region.y < 0 || region.width < 1 || region.height < 1 || region.width > width - region.x ||
      region.height > height - region.y) {
    throw bug_error(concat("jpeg: region ", region.width, "x", region.height, " at (", region.x, ", ", region.y,
                           ") of ", width, "x", height, "; expected it inside"));
  }
  // Where rows are skipped or columns cropped of a picture that is made smaller and whose chroma has a quarter of the
  // rows, libjpeg-turbo 2.1.5 gives pixels of memory that it has not written: such a picture is read from its corner.
  if (scale < 8 && libjpeg_->info().max_v_samp_factor > 2)
    return read({0, 0, full_width, static_cast<JDIMENSION>(region.y + region.height)}, channels, pixels);
  Window window{0, static_cast<JDIMENSION>(region.y), full_width, static_cast<JDIMENSION>(region.height)};
  if (libjpeg_->may_crop()) {
    // jpeg_crop_scanline() treats the window as a picture. At its edges fancy upsampling repeats the outermost sample,
    // and in a window narrower than two samples it gives way to repetition. One more pixel on each side keeps the
    // region away from the edges, and a width of at least 8 pixels avoids the repetition.
    constexpr JDIMENSION kMinWidth = 8;
    const auto begin = static_cast<JDIMENSION>(region.x), end = begin + static_cast<JDIMENSION>(region.width);
    const JDIMENSION wider_end = std::min(full_width, std::max(end + 1, kMinWidth));
    window.x = std::min(begin - (begin > 0 ? 1 : 0), wider_end - std::min(wider_end, kMinWidth));
    window.width = wider_end - window.x;
    libjpeg_->check(libjpeg_->crop(&window));
  }
  return read(window, channels, pixels);
}

Picture Decompressor::decode_whole(int scale, int channels, std::vector<uint8_t>& pixels) {
  libjpeg_->check(libjpeg_->start(scale, channels));
  const auto& info = libjpeg_->info();
  check_scans(info);
  return read({0, 0, info.output_width, info.output_height}, channels, pixels);
}

Picture Decompressor::read(const Window& window, int channels, std::vector<uint8_t>& pixels) {
  const size_t row_bytes = size_t{window.width} * static_cast<size_t>(channels);
  const size_t byte_count = row_bytes * window.height;
  pixels.resize(std::max(pixels.size(), byte_count + (libjpeg_->is_cmyk() ? size_t{4} * window.width : 0)));
  libjpeg_->check(libjpeg_->read_rows(window, channels, pixels.data(), pixels.data() + byte_count));
  return {
      pixels.data(), static_cast<ptrdiff_t>(row_bytes), static_cast<int>(window.height), static_cast<int>(window.width),
      channels,      static_cast<int>(window.x),        static_cast<int>(window.y)};
}

}  // namespace penstock::detail
