// Taps: the pixels along one axis that an output pixel is made of, and their weights, for Filter::kAntialias.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace penstock::detail {

/// One axis of a map along the axes. The centre of output pixel i lies at step * (i + 0.5) + start in the picture.
struct Axis {
  double step = 1, start = 0;  // in pixels of the picture
  int input_size = 0, output_size = 0;

  double center(int i) const { return step * (i + 0.5) + start; }
  bool holds(double coordinate) const { return coordinate >= 0 && coordinate < input_size; }
  /// Half the width of the triangle: the width of an output pixel in the picture, but 1 (bilinear) where the picture is
  /// enlarged.
  double reach() const { return std::fmax(std::fabs(step), 1.0); }
};

struct TapSpan {
  int begin = 0, end = 0;
};

/// The pixels whose centres are closer than reach() to `center`, clipped to the picture. As Pillow's
/// precompute_coeffs() (Resample.c, 13.0), except that Pillow may add a last pixel of weight 0.
TapSpan tap_span(const Axis& axis, double center);

/// Weights are fixed-point numbers in units of 2^-14, so that one instruction (pmaddwd) multiplies two of them by two
/// levels. Each weight is within one unit of its exact value, and the weights of an output pixel sum to exactly 1. The
/// reason is that the running sums are rounded, not the weights: even the 131,070 taps that reduce 65,535 pixels to one
/// sum to 1.
constexpr int kWeightBits = 14;

/// Memory: 4 bytes per pair of taps, in total about twice the greater of the input and output sizes. Kept between
/// pictures.
struct Taps {
  int begin = 0, end = 0;              // output pixels whose centres are in the picture; the others take the fill
  int first_pixel = 0, pixel_end = 0;  // picture pixels from the first tap to the last one
  int pair_count = 0;                  // pairs of taps per output pixel; unused taps have weight 0
  ptrdiff_t pair_stride = 0;           // stride of `pairs`, in entries
  std::vector<int32_t> first;          // entry i: the first tap of output pixel begin + i, a pixel of the picture
  std::vector<uint32_t> pairs;  // [p * pair_stride + i]: weight of tap 2p in the low half, of tap 2p + 1 in the high

  /// Computes the taps of an axis. The bits are the same everywhere, because the arithmetic is f64 with every operation
  /// rounded. About 10 ns per output pixel.
  void assign(const Axis& axis);

 private:
  template <int kTaps>
  void set_weights(const Axis& axis, int tap_limit);
};

/// The number of output pixels with weight 0 that Taps holds after the last one: enough for one vector.
constexpr int kSpareTaps = 16;

}  // namespace penstock::detail
