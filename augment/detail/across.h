// AcrossTable: an RGB row's taps, laid out as the vectors of filter_line() take them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "augment/detail/taps.h"

namespace penstock::detail {

/// A vector of `lanes` output pixels is summed in four parts, each of lanes / 4 pixels of four channels. As a part
/// takes them:
///   blocks   part j holds pixels j, 4 + j, 8 + j, ..: one load of 8 i16 a pixel; the sums transpose inside of 128 bits
///   grouped  part j holds pixels 4j .. 4j + 3 (16 lanes only): one load of 32 i16 and one shuffle for all four, where
///            they stand that close: below a step of about 2.7
/// Memory: 32 bytes and 16 a pair of taps, an output pixel. Built anew for each picture, in about 1 us.
struct AcrossTable {
  bool is_grouped = false;
  int lanes = 0;
  std::vector<uint32_t> weights;  // [vector][pair][part][lane]: what Taps::pairs has
  std::vector<int32_t> base;      // [vector][part], grouped: where the 32 begin, i16
  std::vector<uint16_t> order;    // [vector][part][2 * lane], grouped: which of them; R R G G B B and two of no meaning

  /// `offset`: of each output pixel's first tap in the line, i16; taps.pair_stride of them.
  void assign(const Taps& taps, const std::vector<int32_t>& offset, int lane_count, bool may_group);

  /// The first output pixel of a vector: the last one overlaps its neighbour.
  static int first_of(int vector, int lanes, int count) { return std::min(vector * lanes, std::max(count - lanes, 0)); }
};

}  // namespace penstock::detail
