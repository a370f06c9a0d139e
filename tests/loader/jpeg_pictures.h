// JPEGs made with libjpeg, the pixels that libjpeg decodes, and its coefficients as a CoefficientSource.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

// After <cstdio>, because it uses FILE and size_t without including anything.
#include <jpeglib.h>

#include "augment/render.h"
#include "core/rng.h"
#include "loader/jpeg/base/coefficients.h"
#include "loader/jpeg/base/geometry.h"

namespace penstock::testing_data {

/// The sampling factors of the first component and of the others, and the colour space of the file.
struct JpegKind {
  const char* name;
  std::array<int, 2> first{1, 1}, others{1, 1};
  J_COLOR_SPACE color = JCS_YCbCr;
  bool is_progressive = false;
  std::vector<jpeg_scan_info> scans{};  // when empty, libjpeg chooses them
  bool is_arithmetic = false;
};

inline const std::vector<JpegKind>& jpeg_kinds() {
  static const std::vector<JpegKind> kinds{{"444"},
                                           {"422", {2, 1}},
                                           {"440", {1, 2}},
                                           {"420", {2, 2}},
                                           {"411", {4, 1}},
                                           {"410", {4, 2}},
                                           {"441", {1, 4}},
                                           {"chroma finer", {1, 1}, {2, 2}},
                                           {"grey", {1, 1}, {1, 1}, JCS_GRAYSCALE},
                                           {"grey 2x2", {2, 2}, {1, 1}, JCS_GRAYSCALE},
                                           {"rgb", {1, 1}, {1, 1}, JCS_RGB},
                                           {"rgb 2x1", {2, 1}, {1, 1}, JCS_RGB}};
  return kinds;
}

[[noreturn]] inline void abort_with_message(j_common_ptr info) {
  info->err->output_message(info);
  std::abort();  // tests use sound input only
}

/// Waves with noise: every coefficient occurs, and so do edges.
inline std::vector<uint8_t> test_pixels(int height, int width, int channels, Rng& rng) {
  std::vector<uint8_t> pixels(static_cast<size_t>(height) * width * channels);
  const int noise = rng.between(0, 3) * 85, period = rng.between(2, 60);
  for (size_t i = 0; i < pixels.size(); ++i) {
    const int column = static_cast<int>(i) / channels % width, row = static_cast<int>(i) / channels / width;
    const int wave = (column * (1 + static_cast<int>(i) % channels) + row) % period * 255 / period;
    pixels[i] = static_cast<uint8_t>(std::clamp(wave + rng.between(-noise, noise), 0, 255));
  }
  return pixels;
}

inline std::vector<uint8_t> encode_jpeg(const JpegKind& kind, int height, int width, int quality, Rng& rng) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  errors.error_exit = abort_with_message;
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long byte_count = 0;
  jpeg_mem_dest(&info, &bytes, &byte_count);
  const bool is_cmyk = kind.color == JCS_CMYK || kind.color == JCS_YCCK;
  info.image_height = static_cast<JDIMENSION>(height);
  info.image_width = static_cast<JDIMENSION>(width);
  info.input_components = kind.color == JCS_GRAYSCALE ? 1 : is_cmyk ? 4 : 3;
  info.in_color_space = kind.color == JCS_GRAYSCALE ? JCS_GRAYSCALE : is_cmyk ? JCS_CMYK : JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_colorspace(&info, kind.color);
  jpeg_set_quality(&info, quality, TRUE);
  if (kind.is_progressive) jpeg_simple_progression(&info);
  if (!kind.scans.empty()) {
    info.scan_info = kind.scans.data();
    info.num_scans = static_cast<int>(kind.scans.size());
  }
  info.arith_code = kind.is_arithmetic ? TRUE : FALSE;
  for (int i = 0; i < info.num_components; ++i) {
    // The fourth component is K, which is sampled like the first.
    const auto& factors = i == 0 || i == 3 ? kind.first : kind.others;
    info.comp_info[i].h_samp_factor = factors[0];
    info.comp_info[i].v_samp_factor = factors[1];
  }
  jpeg_start_compress(&info, TRUE);
  std::vector<uint8_t> pixels = test_pixels(height, width, info.input_components, rng);
  while (info.next_scanline < info.image_height) {
    JSAMPROW row = pixels.data() + size_t{info.next_scanline} * info.image_width * info.input_components;
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::vector<uint8_t> file(bytes, bytes + byte_count);
  std::free(bytes);
  return file;
}

/// A whole picture as libjpeg decodes it with its defaults.
struct WholePicture {
  int height = 0, width = 0, channels = 0;
  std::vector<uint8_t> pixels;
};

inline WholePicture decode_by_libjpeg(const std::vector<uint8_t>& file, int scale, int channels) {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  errors.error_exit = abort_with_message;
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, file.data(), file.size());
  jpeg_read_header(&info, TRUE);
  info.out_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  info.scale_num = static_cast<unsigned>(scale);
  info.scale_denom = 8;
  jpeg_start_decompress(&info);
  WholePicture whole{static_cast<int>(info.output_height), static_cast<int>(info.output_width), channels, {}};
  const size_t row_bytes = size_t{info.output_width} * static_cast<size_t>(channels);
  whole.pixels.resize(row_bytes * info.output_height);
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = whole.pixels.data() + row_bytes * info.output_scanline;
    jpeg_read_scanlines(&info, &row, 1);
  }
  jpeg_destroy_decompress(&info);
  return whole;
}

/// A CoefficientSource that gives the coefficients that libjpeg reads.
class LibjpegSource final : public detail::CoefficientSource {
 public:
  LibjpegSource(const std::vector<uint8_t>& file, const detail::JpegGeometry& geometry) : geometry_(geometry) {
    info_.err = jpeg_std_error(&errors_);
    errors_.error_exit = abort_with_message;
    jpeg_create_decompress(&info_);
    jpeg_mem_src(&info_, file.data(), file.size());
    jpeg_read_header(&info_, TRUE);
    arrays_ = jpeg_read_coefficients(&info_);
  }
  ~LibjpegSource() override { jpeg_destroy_decompress(&info_); }
  LibjpegSource(const LibjpegSource&) = delete;

  void read(int mcu_row, int begin, int end, const detail::McuRun& run) override {
    ++read_count;
    mcu_count += end - begin;
    for (int i = 0; i < geometry_.component_count; ++i) {
      const auto& component = geometry_.components[i];
      for (int v = 0; v < component.v; ++v) {
        JBLOCKROW row = *info_.mem->access_virt_barray(reinterpret_cast<j_common_ptr>(&info_), arrays_[i],
                                                       static_cast<JDIMENSION>(mcu_row * component.v + v), 1, FALSE);
        for (int column = begin * component.h; column < end * component.h; ++column) {
          const int number = (column / component.h - begin) * geometry_.mcu_blocks + component.first_block +
                             v * component.h + column % component.h;
          std::copy_n(row[column], 64, run.blocks + ptrdiff_t{64} * number);
          run.rows[number] = used_rows(row[column]);
        }
      }
    }
  }

  int read_count = 0, mcu_count = 0;

 private:
  static uint8_t used_rows(const JCOEF* block) {
    for (int i = 63; i > 0; --i)
      if (block[i] != 0) return static_cast<uint8_t>(i / 8 + 1);
    return 0;
  }

  const detail::JpegGeometry& geometry_;
  jpeg_decompress_struct info_{};
  jpeg_error_mgr errors_{};
  jvirt_barray_ptr* arrays_ = nullptr;
};

inline Region random_region(int height, int width, Rng& rng) {
  const int x = rng.between(0, width - 1), y = rng.between(0, height - 1);
  return {x, y, rng.between(1, width - x), rng.between(1, height - y)};
}

/// "" when `picture` covers the region and has the same pixels as `whole` at its place; otherwise what differs.
inline std::string difference(const Picture& picture, const Region& region, const WholePicture& whole) {
  if (region.x < picture.x || region.y < picture.y || region.x + region.width > picture.x + picture.width ||
      region.y + region.height > picture.y + picture.height)
    return "the region is not covered";
  if (picture.x + picture.width > whole.width || picture.y + picture.height > whole.height) return "beyond the picture";
  for (int y = region.y; y < region.y + region.height; ++y)
    for (int x = region.x * whole.channels; x < (region.x + region.width) * whole.channels; ++x) {
      const int found = picture.pixels[(y - picture.y) * picture.row_stride + x - picture.x * whole.channels];
      const int expected = whole.pixels[static_cast<size_t>(y) * whole.width * whole.channels + x];
      if (found != expected)
        return "row " + std::to_string(y) + ", level " + std::to_string(x) + ": " + std::to_string(found) +
               ", expected " + std::to_string(expected);
    }
  return "";
}

}  // namespace penstock::testing_data
