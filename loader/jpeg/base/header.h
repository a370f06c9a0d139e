// JpegHeader: everything in a JPEG before its entropy-coded data.
//
// Lives here: what all JPEG code shares: headers, geometry, Huffman tables, bits, a picture as coefficients.
// Not here: reading or writing entropy-coded data (entropy), pixels (pixels), how coefficients are stored (store).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "augment/pixels/pixels.h"

namespace penstock::detail {

/// One Huffman table as it is in a DHT segment (ITU-T T.81, B.2.4.2).
struct HuffmanSpec {
  std::array<uint8_t, 16> counts{};    // element i: number of codes of i + 1 bits
  std::array<uint8_t, 256> symbols{};  // in the order of their codes
  int symbol_count = 0;                // 0: the table is not defined
};

struct JpegComponent {
  uint8_t id = 0;
  int h = 1, v = 1;  // sampling factors; always 1 and 1 in a picture of one component, whose MCU is one block
  int quant_table = 0, dc_table = 0, ac_table = 0;
};

enum class JpegColor : uint8_t { kGrey, kYcc, kRgb, kCmyk, kYcck };

/// A JPEG's markers up to and including the first SOS, as far as decoding needs them.
struct JpegHeader {
  int height = 0, width = 0;  // in pixels, as stored, before the EXIF orientation is applied
  int component_count = 0;    // 1, 3 or 4
  std::array<JpegComponent, 4> components{};
  // Row by row, not in zigzag order; element 0 is 0 when the table is not defined.
  std::array<std::array<uint16_t, 64>, 4> quant{};
  std::array<HuffmanSpec, 4> dc, ac;
  int restart_interval = 0;  // in MCUs; 0: there are no restart markers
  /// Whether the first scan is the whole picture: sequential, Huffman-coded, 8 bits, with all components in their order
  /// and all coefficients. False for progressive, arithmetic-coded and multi-scan pictures.
  bool is_one_scan = false;
  /// Whether libjpeg-turbo warns about this header: an unknown revision of JFIF or colour transform of Adobe, bytes
  /// before a marker, or Ss, Se, Ah and Al other than 0, 63, 0 and 0 in a sequential scan. None of them changes a
  /// pixel.
  bool has_warning = false;
  JpegColor color = JpegColor::kGrey;
  // Views of the parsed bytes, empty where there is none: the TIFF structure of the first EXIF segment, and the packet
  // of the last XMP segment.
  std::span<const uint8_t> exif, xmp;
  size_t scan_begin = 0;  // position of the first entropy-coded byte

  /// Whether our own decoder can decode the picture: one scan, 1 or 3 components, and sampling factors that divide the
  /// greatest one. Restart markers are allowed.
  bool is_decodable() const;
};

/// Parses the header of the JPEG in `bytes`. Never reads outside of `bytes`, and allocates nothing.
/// Errors: corrupt_error for anything that is not a JPEG of 8 bits and 1, 3 or 4 components, for whatever libjpeg
/// refuses in a header, and for a quantisation step of 0, which it takes. The message does not name the file.
JpegHeader parse_jpeg_header(std::span<const uint8_t> bytes);

/// The extent of the decoded picture. It has 1 channel for grey, otherwise 3.
inline Extent jpeg_extent(const JpegHeader& header) {
  return {header.height, header.width, header.component_count == 1 ? 1 : 3};
}

/// Element k is the position, in a row-by-row block, of the k-th coefficient in zigzag order (T.81, figure 5). Elements
/// 64 .. 79 are 63, so that a run in a broken stream does not leave the block.
extern const std::array<uint8_t, 80> kNaturalOrder;

}  // namespace penstock::detail
