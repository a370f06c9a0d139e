// The weights of a filter along one axis (Filter::kAntialias and those after it), one output pixel at a time: for
// render() and for the kernels of a CUDA device, which therefore give the same bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "augment/pixels/tap_kernel.h"
#include "core/device_math.h"

namespace penstock::detail {

/// One axis of a map along the axes. The centre of output pixel i lies at step * (i + 0.5) + start in the picture.
struct Axis {
  double step = 1, start = 0;  // in pixels of the picture
  int input_size = 0, output_size = 0;
  TapKernel kernel = TapKernel::kTriangle;

  double center(int i) const { return step * (i + 0.5) + start; }
  bool holds(double coordinate) const { return coordinate >= 0 && coordinate < input_size; }
  /// The width of an output pixel in the picture, but 1 where the picture is enlarged.
  double unit() const {
    const double width = absolute(step);
    return width > 1.0 ? width : 1.0;
  }
  /// How far from an output pixel's centre a pixel may have a weight.
  double reach() const { return support_of(kernel) * unit(); }
};

/// Whether a filter with negative weights goes down the columns before it goes across the rows, so that rows that go
/// away are not filtered: Pillow's rule since 13.0, by the pixels that the whole picture loses. Before, it always went
/// across first.
inline bool goes_down_first(const Axis& across, const Axis& down) {
  const auto lost = [](const Axis& axis) { return axis.input_size - axis.input_size / absolute(axis.step); };
  constexpr double kRounding = 1e-6;  // of sizes in whole pixels
  return lost(down) > kRounding && lost(down) > 2 * lost(across) + kRounding;
}

struct TapSpan {
  int begin = 0, end = 0;
};

/// Weights are fixed-point numbers in units of 2^-14, so that one instruction (pmaddwd) multiplies two of them by two
/// levels. Each weight is within one unit of its exact value, and the weights of an output pixel sum to exactly 1. The
/// reason is that the running sums are rounded, not the weights: even the 131,070 taps that reduce 65,535 pixels to one
/// sum to 1. A weight beside negative ones may be greater than 1, but stays below 2^15 units: at the edge of a picture
/// of two pixels, where most of the lobes are missing, bicubic comes to 1.14 and lanczos to 1.30.
constexpr int kWeightBits = 14;

/// The mixed line between the two passes holds levels * 2^7.
constexpr int kLineBits = 7;
constexpr int kMixedShift = kWeightBits - kLineBits;
constexpr int kHalfOfMixed = 1 << (kMixedShift - 1);
constexpr int kWhiteOfLine = 255 << kLineBits;  // to which filters with negative weights limit their sums
constexpr float kLevelOfSum = 1.f / (1 << (kLineBits + kWeightBits));  // turns a sum into levels

// Truncation is used instead of floor() and ceil(), which are function calls where the baseline has no SSE4.1.
inline int clipped_floor(double v, int size) {
  const double above = v > 0.0 ? v : 0.0, limit = size;
  return static_cast<int>(above < limit ? above : limit);
}

inline int clipped_ceil(double v, int size) {
  const int below = clipped_floor(v, size);
  return below < size && v > below ? below + 1 : below;
}

/// The pixels whose centres are closer than reach() to `center`, clipped to the picture; a box also has the one on its
/// right edge. As Pillow's precompute_coeffs() (Resample.c, 13.0), except that Pillow may add a last pixel of weight 0.
inline TapSpan tap_span(const Axis& axis, double center) {
  const double reach = axis.reach();
  return {clipped_floor(center - reach + 0.5, axis.input_size),
          axis.kernel == TapKernel::kBox ? clipped_floor(center + reach + 0.5, axis.input_size)
                                         : clipped_ceil(center + reach - 0.5, axis.input_size)};
}

/// The number of weights of every output pixel. An interval of length 2 * reach without its left end holds at most
/// ceil(2 * reach) pixel centres. One more would have weight 0.
inline int tap_count(const Axis& axis) {
  const int count = clipped_ceil(2 * axis.reach() - 1e-9, axis.input_size);
  return count > 1 ? count : 1;
}

/// `units` rounded downwards, also where it is negative.
inline int32_t whole_units(double units) {
  const auto cut = static_cast<int32_t>(units);
  return units < cut ? cut - 1 : cut;
}

/// Calls put(tap, weight) for the taps 0 .. tap_limit - 1 (if kTaps is not 0, kTaps - 1) of the output pixel whose
/// centre is at `center`, which must be in the picture, and returns their span. Tap 0 is pixel span.begin. There are
/// always that many weights, and those outside of the filter are 0, so that the processor can predict the length of
/// the loop. Weights of pixels at or after span.end are 0 as well, because the picture there may not have been decoded.
/// A negative weight is given modulo 2^32. The arithmetic is f64 with every operation rounded, so that the bits are the
/// same everywhere. `inverse` is 1 / axis.unit().
template <TapKernel kKernel, int kTaps, class Put>
TapSpan weigh_taps(const Axis& axis, double center, double inverse, int tap_limit, const Put& put) {
  const int count = kTaps > 0 ? kTaps : tap_limit;
  const TapSpan span = tap_span(axis, center);
  const int end = span.begin + count < span.end ? span.begin + count : span.end;
  const auto weight = [&](int tap) {
    const int pixel = span.begin + tap;
    const double height = tap_weight<kKernel>((pixel + 0.5 - center) * inverse);
    return pixel < end ? height : 0;
  };
  double total = 0;
  for (int tap = 0; tap < count; ++tap) total += weight(tap);
  // The only pixel of a box may be found on its edge by rounding, where it would have no weight.
  const bool is_one = kKernel == TapKernel::kBox && total == 0;
  const double unit = (1 << kWeightBits) / (is_one ? 1 : total);
  double sum = is_one ? 1 : 0;
  uint32_t rounded_sum = 0;
  for (int tap = 0; tap < count; ++tap) {
    sum += weight(tap);
    const auto rounded = static_cast<uint32_t>(whole_units(sum * unit + 0.5));
    put(tap, rounded - rounded_sum);
    rounded_sum = rounded;
  }
  return {span.begin, end};
}

}  // namespace penstock::detail
