// Taps: which pixels an output pixel is made of along one axis, and their weights, for Filter::kAntialias.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace penstock::detail {

/// One axis of a map along the axes: output pixel i is centred at step * (i + 0.5) + start in the picture.
struct Axis {
  double step = 1, start = 0;  // pixels of the picture
  int input_size = 0, output_size = 0;

  double center(int i) const { return step * (i + 0.5) + start; }
  bool holds(double coordinate) const { return coordinate >= 0 && coordinate < input_size; }
  /// Half of the triangle's base: an output pixel's width, and 1 (bilinear) where the picture grows.
  double reach() const { return std::fmax(std::fabs(step), 1.0); }
};

struct TapSpan {
  int begin = 0, end = 0;
};

/// The pixels whose centres lie less than reach() from `center`, clipped to the picture: Pillow's precompute_coeffs()
/// (Resample.c, 13.0), less a last pixel of weight 0.
TapSpan tap_span(const Axis& axis, double center);

/// Weights are fixed point, in units of 2^-14, so that two of them multiply two levels in one instruction (pmaddwd).
/// Each is within one unit of its real value, and those of an output pixel sum to 1 exactly: sums are rounded, not
/// weights, so even the 131,070 taps of 65,535 pixels shrunk to one sum to 1.
constexpr int kWeightBits = 14;

/// Memory: 4 bytes a pair of taps, about twice the greater of input and output; kept between pictures.
struct Taps {
  int begin = 0, end = 0;              // output pixels whose centres are in the picture; the others take fill
  int first_pixel = 0, pixel_end = 0;  // what all their taps span
  int pair_count = 0;                  // of taps, the same for all: what is missing has weight 0
  ptrdiff_t pair_stride = 0;           // of `pairs`
  std::vector<int32_t> first;          // of output pixel begin + i: its first tap, a pixel of the picture
  std::vector<uint32_t> pairs;  // [p * pair_stride + i]: weight of tap 2p in the low half, of tap 2p + 1 in the high

  /// The same bits everywhere: f64 arithmetic, each operation rounded. About 10 ns an output pixel.
  void assign(const Axis& axis);

 private:
  template <int kTaps>
  void set_weights(const Axis& axis, int tap_limit);
};

/// Output pixels that Taps holds beyond the last one, with weight 0: a vector's worth.
constexpr int kSpareTaps = 16;

}  // namespace penstock::detail
