// SeekIndex: where every K-th MCU of a JPEG's scan begins, so that a region can be read without decoding what lies
// before it.
//
// A point is the first bit of an MCU and the DC predictors before it. There is a point for the MCUs 0, K, 2 K, .. of
// every MCU row, which is P = ceil(columns / K) points per row. Bits are counted from the first byte of the JPEG, in
// each byte from the top, and stuffed zeros (after 0xFF) are counted too. An MCU that begins after 0xFF 0x00 begins at
// the next byte.
//
// The bytes of an index are little-endian. With C components and R MCU rows:
//
//   0           u8   version, 1
//   1           u8   K, 1 or more
//   2           u8   C
//   3           u8   L, width of a length in bits: 0 .. 32
//   4           u16  MCUs in a row
//   6           u16  R
//   8           u32  the least length, in bits
//   12 + 3 c    u8   D[c], width of component c's predictors in bits: 0 .. 16
//   13 + 3 c    i16  the least predictor of component c
//   12 + 3 C    u32  [R], the first bit of every MCU row
//   then        R x P records, row by row, packed without gaps. A record has L + D[0] + .. + D[C - 1] bits. Bit fields
//               fill each byte from its lowest bit on. The first field is the length in bits from this point to the
//               next, minus the least length. From the last point of a row it reaches to the first point of the next
//               row, and from the very last point to the end of the scan, without its padding. The other fields are
//               the predictor of each component, minus the least predictor of that component
//   at the end  7 bytes 0
//
// Fixed widths take 10 % fewer bytes than a variable-length code of differences, because the lengths and predictors
// within one picture are alike. They also give the predictors of a point without the points before it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "loader/jpeg/base/geometry.h"
#include "loader/jpeg/base/header.h"
#include "loader/jpeg/entropy/huffman_kernel.h"

namespace penstock::detail {

/// Builds the index of the JPEG whose bytes are `bytes`, with a point every `every` MCUs (1 .. 255). Decodes the whole
/// scan, which takes about 0.5 ns per bit. Requires header.is_decodable() and no restart markers.
/// Errors: corrupt_error when the scan is broken, does not fill the picture, or has anything but padding and EOI after
/// its last MCU; also for a JPEG of 512 MB or more.
std::vector<uint8_t> build_seek_index(const JpegHeader& header, const JpegGeometry& geometry,
                                      std::span<const uint8_t> bytes, int every = kGroupMcus);

/// A view of the bytes of an index, which must outlive it. Never reads outside of these bytes, whatever they hold. The
/// caller must check that the positions lie inside of the sample.
class SeekIndex {
 public:
  struct Point {
    int row = 0, k = 0;  // the MCU row, and the number of the point in that row
    uint64_t bit = 0;
    DcPredictors dc{};
  };

  /// Errors: corrupt_error when the bytes are not an index, or are the index of a picture with another geometry.
  SeekIndex(std::span<const uint8_t> bytes, const JpegGeometry& geometry);

  int every() const { return every_; }  // K
  /// Requires 0 <= row < MCU rows.
  Point row_begin(int row) const;
  /// Moves `point` to the next point. After the last point of a row comes the point {row, P}. That is the first point
  /// of the next row under another name, and the two are checked to be at the same bit. In the last row it is the end
  /// of the scan, which has no predictors. Errors: corrupt_error when the two are not at the same bit. Requires that
  /// `point` is not such an end itself.
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

/// Compares all points of `index` with those of the scan in the JPEG `bytes`, which build_seek_index() finds. Requires
/// what that does. Errors: corrupt_error for a point that is not there, and what build_seek_index() throws.
void check_seek_index(const JpegHeader& header, std::span<const uint8_t> bytes, std::span<const uint8_t> index);

}  // namespace penstock::detail
