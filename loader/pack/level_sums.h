// level_sums(): the sums from which mean and deviation of pictures are computed, in Highway SIMD.
#pragma once

#include <array>
#include <cstdint>

namespace penstock::detail {

struct LevelSums {
  uint64_t sum = 0, sum_of_squares = 0;
};

/// The sums of one row, one element per channel. `levels`: W x C. Requires a width of 65,535 or less and 1 or 3
/// channels; with 1 channel the elements 1 and 2 stay 0.
std::array<LevelSums, 3> level_sums(const uint8_t* levels, int width, int channels);

}  // namespace penstock::detail
