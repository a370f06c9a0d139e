// JPEGs that libjpeg writes, and coefficients that libjpeg reads, to test our own code against.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <span>
#include <string>
#include <vector>

// After <cstdio>, because it uses FILE and size_t without including anything.
#include <jpeglib.h>

#include "core/text.h"
#include "loader/jpeg/base/coefficients.h"
#include "loader/jpeg/base/geometry.h"
#include "loader/jpeg/base/header.h"

namespace penstock::testing_data {

using JpegBytes = std::vector<uint8_t>;

struct JpegOptions {
  int height = 37, width = 53;
  int components = 3;  // 1, 3 (YCC), 4 (CMYK)
  int h = 2, v = 2;    // sampling of the first component
  int quality = 90;
  bool optimize = false, progressive = false, arithmetic = false, multi_scan = false;
  int restart_interval = 0;
  double noise = 20;  // levels
  std::string comment = {};

  std::string name() const {
    return concat(height, " x ", width, " x ", components, ", ", h, " x ", v, ", quality ", quality, ", optimize ",
                  optimize, ", restart ", restart_interval);
  }
};

inline JpegBytes write_jpeg(const JpegOptions& options) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* out = nullptr;
  unsigned long out_size = 0;
  jpeg_mem_dest(&info, &out, &out_size);
  info.image_height = options.height;
  info.image_width = options.width;
  info.input_components = options.components;
  info.in_color_space = options.components == 1 ? JCS_GRAYSCALE : options.components == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, options.quality, TRUE);
  info.comp_info[0].h_samp_factor = options.h;
  info.comp_info[0].v_samp_factor = options.v;
  info.optimize_coding = options.optimize;
  info.restart_interval = options.restart_interval;
  info.arith_code = options.arithmetic;
  if (options.progressive) jpeg_simple_progression(&info);
  jpeg_scan_info scans[3] = {};
  if (options.multi_scan) {
    for (int i = 0; i < 3; ++i) scans[i] = {1, {i, 0, 0, 0}, 0, 63, 0, 0};
    info.scan_info = scans;
    info.num_scans = 3;
  }
  jpeg_start_compress(&info, TRUE);
  if (!options.comment.empty())
    jpeg_write_marker(&info, JPEG_COM, reinterpret_cast<const JOCTET*>(options.comment.data()),
                      static_cast<unsigned>(options.comment.size()));
  std::mt19937 random(17);
  std::normal_distribution<double> normal;
  std::vector<uint8_t> row(static_cast<size_t>(options.width) * options.components);
  for (int y = 0; y < options.height; ++y) {
    for (int x = 0; x < options.width; ++x) {
      for (int c = 0; c < options.components; ++c) {
        // A slope and, on the right, a chessboard, whose energy is in the last coefficients.
        const double slope = 30 + 5.0 * x + 3.0 * y + 40.0 * c;
        const double board = x > options.width / 2 ? 60 * ((x + y) % 2) : 0;
        row[static_cast<size_t>(x) * options.components + c] = static_cast<uint8_t>(
            std::clamp(std::fmod(slope, 256) + board + options.noise * normal(random), 0.0, 255.0));
      }
    }
    JSAMPROW line = row.data();
    jpeg_write_scanlines(&info, &line, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  JpegBytes bytes(out, out + out_size);
  std::free(out);
  return bytes;
}

/// All coefficients as libjpeg reads them, MCU after MCU and block after block, in the order of a CoefficientSource.
/// Without `with_padding`, the blocks to the right of or below the picture, which fill up MCUs, are zeros.
inline std::vector<int16_t> libjpeg_coefficients(std::span<const uint8_t> bytes, const detail::JpegGeometry& geometry,
                                                 bool with_padding = true) {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, bytes.data(), bytes.size());
  jpeg_read_header(&info, TRUE);
  jvirt_barray_ptr* arrays = jpeg_read_coefficients(&info);
  std::vector<int16_t> all;
  for (int row = 0; row < geometry.mcu_rows; ++row) {
    for (int column = 0; column < geometry.mcu_columns; ++column) {
      for (int i = 0; i < geometry.component_count; ++i) {
        const auto& component = geometry.components[i];
        for (int y = 0; y < component.v; ++y) {
          JBLOCKARRAY rows = info.mem->access_virt_barray(reinterpret_cast<j_common_ptr>(&info), arrays[i],
                                                          row * component.v + y, 1, FALSE);
          for (int x = 0; x < component.h; ++x) {
            const JCOEF* block = rows[0][column * component.h + x];
            all.insert(all.end(), block, block + 64);
            const bool is_padding =
                static_cast<JDIMENSION>(column * component.h + x) >= info.comp_info[i].width_in_blocks ||
                static_cast<JDIMENSION>(row * component.v + y) >= info.comp_info[i].height_in_blocks;
            if (is_padding && !with_padding) std::fill(all.end() - 64, all.end(), int16_t{0});
          }
        }
      }
    }
  }
  jpeg_destroy_decompress(&info);
  return all;
}

/// Reads MCUs [begin, end) of a row group by group, as CoefficientSource requires.
class GroupReader {
 public:
  explicit GroupReader(const detail::JpegGeometry& geometry)
      : geometry_(geometry), blocks_(detail::kGroupMcus * detail::kMaxMcuBlocks) {}

  std::vector<int16_t> read(detail::CoefficientSource& source, int row, int begin, int end) {
    std::vector<int16_t> all;
    for (int at = begin; at < end;) {
      const int stop = std::min(end, (at / detail::kGroupMcus + 1) * detail::kGroupMcus);
      source.read(row, at, stop, {blocks_[0].values, rows_});
      for (int i = 0; i < (stop - at) * geometry_.mcu_blocks; ++i) {
        all.insert(all.end(), blocks_[i].values, blocks_[i].values + 64);
        EXPECT_EQ(rows_[i], used_rows(blocks_[i].values)) << "MCU row " << row << ", block " << i << " of MCU " << at;
      }
      at = stop;
    }
    return all;
  }

  std::vector<int16_t> read_all(detail::CoefficientSource& source) {
    std::vector<int16_t> all;
    for (int row = 0; row < geometry_.mcu_rows; ++row) {
      const auto part = read(source, row, 0, geometry_.mcu_columns);
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }

 private:
  struct alignas(64) Block {
    int16_t values[64];
  };
  static int used_rows(const int16_t* block) {
    int last = 63;
    while (last > 0 && block[last] == 0) --last;
    return last == 0 ? 0 : last / 8 + 1;
  }
  const detail::JpegGeometry& geometry_;
  std::vector<Block> blocks_;
  uint8_t rows_[detail::kGroupMcus * detail::kMaxMcuBlocks];
};

/// All kinds of a single baseline scan: 4:4:4, 4:2:2, 4:4:0, 4:2:0, 4:1:1 and grey, with odd sizes and one pixel.
inline std::vector<JpegOptions> baseline_options() {
  std::vector<JpegOptions> all;
  for (const auto& [h, v] : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}})
    for (const auto& [height, width] : {std::pair{1, 1}, {37, 53}, {64, 300}})
      for (const int components : {1, 3})
        for (const int quality : {1, 50, 90, 100})
          all.push_back({.height = height,
                         .width = width,
                         .components = components,
                         .h = h,
                         .v = v,
                         .quality = quality,
                         .optimize = all.size() % 3 == 0});
  return all;
}

/// A JPEG with its header and geometry.
struct TestJpeg {
  explicit TestJpeg(JpegBytes all)
      : bytes(std::move(all)), header(detail::parse_jpeg_header(bytes)), geometry(header) {}
  explicit TestJpeg(const JpegOptions& options) : TestJpeg(write_jpeg(options)) {}
  JpegBytes bytes;
  detail::JpegHeader header;
  detail::JpegGeometry geometry;
};

}  // namespace penstock::testing_data
