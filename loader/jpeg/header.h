// JpegHeader: everything that stands in a JPEG before its entropy-coded data.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "augment/plan.h"

namespace penstock::detail {

/// One Huffman table as DHT gives it (ITU-T T.81, B.2.4.2).
struct HuffmanSpec {
  std::array<uint8_t, 16> counts{};    // codes of 1 .. 16 bits
  std::array<uint8_t, 256> symbols{};  // in the order of their codes
  int symbol_count = 0;                // 0: the table is not defined
};

struct JpegComponent {
  uint8_t id = 0;
  int h = 1, v = 1;  // sampling factors; of a picture of one component always 1, 1: its MCU is one block
  int quant_table = 0, dc_table = 0, ac_table = 0;
};

enum class JpegColor : uint8_t { kGrey, kYcc, kRgb, kCmyk, kYcck };

/// A JPEG's markers up to and including the first SOS, as far as decoding needs them.
struct JpegHeader {
  int height = 0, width = 0;  // pixels, as stored: before the orientation
  int component_count = 0;    // 1, 3 or 4
  std::array<JpegComponent, 4> components{};
  std::array<std::array<uint16_t, 64>, 4> quant{};  // row by row, no zigzag; 0 in [0]: not defined
  std::array<HuffmanSpec, 4> dc, ac;
  int restart_interval = 0;  // MCUs; 0: no restart markers
  /// Sequential, Huffman-coded, 8 bits, and its first scan holds all components in their order and all coefficients,
  /// so that the scan is the picture. Progressive, arithmetic-coded and multi-scan pictures are not.
  bool is_one_scan = false;
  JpegColor color = JpegColor::kGrey;
  uint8_t orientation = 1;  // EXIF: 1 .. 8
  size_t scan_begin = 0;    // of the first entropy-coded byte

  /// One scan, 1 or 3 components, and sampling factors that divide the greatest: what our own decoder takes. Restart
  /// markers do not count here.
  bool is_decodable() const;
};

/// Reads the header. Errors: corrupt_error, the fact alone, for anything that is no JPEG of 8 bits and 1, 3 or 4
/// components; also for what libjpeg refuses or warns about in a header. Never reads outside `bytes`; allocates
/// nothing.
JpegHeader parse_jpeg_header(std::span<const uint8_t> bytes);

/// Of the decoded picture: channels 1 for grey, otherwise 3.
inline Extent jpeg_extent(const JpegHeader& header) {
  return {header.height, header.width, header.component_count == 1 ? 1 : 3};
}

/// Position in a row-by-row block of the k-th coefficient in zigzag order (T.81, figure 5). Indices 64 .. 79 give 63,
/// so that a run in a broken stream stays inside.
extern const std::array<uint8_t, 80> kNaturalOrder;

}  // namespace penstock::detail
