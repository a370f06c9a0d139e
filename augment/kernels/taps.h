// Taps: the pixels along one axis that an output pixel is made of, and their weights, for the filters along the axes
// (is_along_axes()).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "augment/pixels/tap_weights.h"

namespace penstock::detail {

/// Memory: 4 bytes per pair of taps, in total about twice the greater of the input and output sizes, times the filter's
/// support (up to 3). Kept between pictures.
struct Taps {
  int begin = 0, end = 0;              // output pixels whose centres are in the picture; the others take the fill
  int first_pixel = 0, pixel_end = 0;  // picture pixels from the first tap to the last one
  int pair_count = 0;                  // pairs of taps per output pixel; unused taps have weight 0
  ptrdiff_t pair_stride = 0;           // stride of `pairs`, in entries
  std::vector<int32_t> first;          // entry i: the first tap of output pixel begin + i, a pixel of the picture
  std::vector<uint32_t> pairs;  // [p * pair_stride + i]: weight of tap 2p (i16) in the low half, of 2p + 1 in the high

  /// Computes the taps of an axis. The bits are the same everywhere, because the arithmetic is f64 with every operation
  /// rounded. About 10 ns per output pixel with a triangle.
  void assign(const Axis& axis);

 private:
  template <TapKernel kKernel, int kTaps>
  void set_weights(const Axis& axis, int tap_limit);
};

/// The number of output pixels with weight 0 that Taps holds after the last one: enough for one vector.
constexpr int kSpareTaps = 16;

}  // namespace penstock::detail
