// AcrossTable: the taps of an RGB row, in the order in which the vectors of filter_line() use them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "augment/kernels/taps.h"

namespace penstock::detail {

/// A vector of `lanes` output pixels is summed in four parts. A part holds lanes / 4 pixels of four channels, of which
/// the fourth is unused. There are two ways to assign pixels to parts:
///   blocks   part j holds the pixels j, 4 + j, 8 + j, ..: one load of 8 i16 values per pixel; the sums are then
///            transposed within blocks of 128 bits
///   grouped  part j holds the pixels 4j .. 4j + 3 (with 16 lanes only): one load of 32 i16 values and one
///            shuffle serve all four pixels. Possible where their taps are that close together, that is, for a
///            reduction of up to about 2.7
/// Memory: 32 bytes plus 16 bytes per pair of taps, for each output pixel. It is rebuilt for each picture, in about 1
/// us.
struct AcrossTable {
  bool is_grouped = false;
  int lanes = 0;
  std::vector<uint32_t> weights;  // [vector][pair][part][lane]: the values of Taps::pairs
  // [vector][part], grouped only: offset of the 32 loaded values in the line, in i16 values.
  std::vector<int32_t> base;
  // [vector][part][2 * lane], grouped only: which of the 32 values goes to each lane: R R G G B B and two unused ones.
  std::vector<uint16_t> order;

  /// `offset` holds taps.pair_stride entries: where each output pixel's first tap lies in the line, in i16 values.
  void assign(const Taps& taps, const std::vector<int32_t>& offset, int lane_count, bool may_group);

  /// The first output pixel of a vector. The last vector overlaps the one before it, so that it is whole.
  static int first_of(int vector, int lanes, int count) { return std::min(vector * lanes, std::max(count - lanes, 0)); }
};

}  // namespace penstock::detail
