// SeekIndex: where every K-th MCU of a JPEG's scan begins, so that a region can be read without what lies before it.
//
// A point is an MCU's first bit and the DC predictors before it. Points are the MCUs 0, K, 2 K, .. of every MCU row: P
// = ceil(columns / K) a row. Bits are counted from the JPEG's first byte, each byte's from the top, stuffed zeros
// (behind 0xFF) included; an MCU that begins behind 0xFF 0x00 begins at the byte after them.
//
// The bytes, little-endian, with C components, R MCU rows:
//
//   0           u8   version, 1
//   1           u8   K, 1 or more
//   2           u8   C
//   3           u8   L, bits of a length: 0 .. 32
//   4           u16  MCUs in a row
//   6           u16  R
//   8           u32  least length, bits
//   12 + 3 c    u8   D[c], bits of component c's predictors: 0 .. 16
//   13 + 3 c    i16  their least
//   12 + 3 C    u32  [R], the first bit of every MCU row
//   then        records, R x P, row by row, packed without gaps, each of L + D[0] + .. + D[C - 1] bits, a number's
//               lowest bit first and in a byte from the lowest bit on: the length in bits from this point to the next
//               (of the row's last point: to the next row's first; of the very last: to the scan's end, its padding
//               not counted) minus the least, and each component's predictor minus its least
//   at the end  7 bytes 0
//
// Fixed widths take 10 % less than a variable-length code of differences, because one picture's lengths and predictors
// are alike, and a point's predictors are found without the points before it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "loader/jpeg/geometry.h"
#include "loader/jpeg/header.h"
#include "loader/jpeg/huffman_kernel.h"

namespace penstock::detail {

/// The index of a JPEG of which `bytes` are all, with a point every `every` MCUs (1 .. 255). Decodes the whole scan:
/// about 0.5 ns a bit. Requires header.is_decodable() and no restart markers.
/// Errors: corrupt_error when the scan is broken, does not fill the picture, or goes on behind its last MCU with
/// anything but padding and EOI; also for a JPEG of 512 MB or more.
std::vector<uint8_t> build_seek_index(const JpegHeader& header, const JpegGeometry& geometry,
                                      std::span<const uint8_t> bytes, int every = kGroupMcus);

/// A view of an index's bytes, which must outlive it. Reads nothing outside of them, whatever they hold; whether the
/// positions lie in the sample is for their user to check.
class SeekIndex {
 public:
  struct Point {
    int row = 0, k = 0;  // MCU row; the point's number in it
    uint64_t bit = 0;
    DcPredictors dc{};
  };

  /// Errors: corrupt_error when the bytes are no index, or one of a picture of another geometry.
  SeekIndex(std::span<const uint8_t> bytes, const JpegGeometry& geometry);

  int every() const { return every_; }  // K
  /// Requires 0 <= row < MCU rows.
  Point row_begin(int row) const;
  /// To the next point. From the row's last to {row, P}: the next row's first by another name, checked to be the same;
  /// in the last row, a point without predictors where the scan ends. Errors: corrupt_error when they differ.
  /// Requires that `point` is no such end itself.
  void advance(Point& point) const;

 private:
  uint64_t field(uint64_t bit, int width) const;
  void read_predictors(Point& point) const;
  uint64_t record_bit(const Point& point) const;

  std::span<const uint8_t> bytes_;
  size_t rows_begin_ = 0, records_begin_ = 0;
  int every_ = 0, row_points_ = 0, row_count_ = 0, component_count_ = 0;
  int length_width_ = 0, record_width_ = 0;
  uint32_t least_length_ = 0;
  struct Predictor {
    int width = 0, least = 0;
  };
  std::array<Predictor, 4> predictors_{};
};

}  // namespace penstock::detail
