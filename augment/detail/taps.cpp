// Taps: the weights of the triangle filter, rounded so that they sum to 1.
#include "augment/detail/taps.h"

#include <algorithm>

namespace penstock::detail {
namespace {

// Truncation is used instead of floor() and ceil(), which are function calls where the baseline has no SSE4.1.
int clipped_floor(double v, int size) {
  return static_cast<int>(std::min(std::max(v, 0.0), static_cast<double>(size)));
}

int clipped_ceil(double v, int size) {
  const int below = clipped_floor(v, size);
  return below < size && v > below ? below + 1 : below;
}

}  // namespace

TapSpan tap_span(const Axis& axis, double center) {
  const double reach = axis.reach();
  return {clipped_floor(center - reach + 0.5, axis.input_size), clipped_ceil(center + reach - 0.5, axis.input_size)};
}

template <int kTaps>
void Taps::set_weights(const Axis& axis, int tap_limit) {
  const double reach = axis.reach(), inverse = 1 / reach;
  const int tap_count = kTaps > 0 ? kTaps : tap_limit;
  for (int i = 0; i < end - begin; ++i) {
    const double center = axis.center(begin + i);
    const int first_tap = clipped_floor(center - reach + 0.5, axis.input_size);
    // No tap lies outside of footprint(), because the picture there may not have been decoded.
    const int last_tap = std::min(first_tap + tap_count, tap_span(axis, center).end) - 1;
    // There are always tap_count weights, and those outside of the triangle are 0, so that the processor can predict
    // the length of the loop.
    const auto weight = [&](int pixel) {
      const double height = 1 - std::fabs(pixel + 0.5 - center) * inverse;
      return height > 0 && pixel <= last_tap ? height : 0;
    };
    double total = 0;
    for (int tap = 0; tap < tap_count; ++tap) total += weight(first_tap + tap);
    const double unit = (1 << kWeightBits) / total;
    double sum = 0;
    uint32_t rounded_sum = 0;
    for (int tap = 0; tap < tap_count; ++tap) {
      sum += weight(first_tap + tap);
      const auto rounded = static_cast<uint32_t>(static_cast<int32_t>(sum * unit + 0.5));
      pairs[tap / 2 * pair_stride + i] |= (rounded - rounded_sum) << (tap % 2 * 16);
      rounded_sum = rounded;
    }
    first[i] = first_tap;
    first_pixel = std::min(first_pixel, first_tap);
    pixel_end = std::max(pixel_end, last_tap + 1);
  }
}

void Taps::assign(const Axis& axis) {
  const double reach = axis.reach();
  // An open interval of length 2 * reach holds at most ceil(2 * reach) pixel centres. One more would have weight 0.
  const int tap_count = std::max(clipped_ceil(2 * reach - 1e-9, axis.input_size), 1);
  for (begin = 0; begin < axis.output_size && !axis.holds(axis.center(begin));) ++begin;
  for (end = begin; end < axis.output_size && axis.holds(axis.center(end));) ++end;
  pair_count = (tap_count + 1) / 2;
  pair_stride = end - begin + kSpareTaps;
  first_pixel = axis.input_size;
  pixel_end = 0;
  first.resize(static_cast<size_t>(pair_stride));
  pairs.assign(static_cast<size_t>(pair_stride) * pair_count, 0);
  // The loop is unrolled for enlarging and for reductions down to half the size.
  const auto set = tap_count == 2   ? &Taps::set_weights<2>
                   : tap_count == 3 ? &Taps::set_weights<3>
                   : tap_count == 4 ? &Taps::set_weights<4>
                                    : &Taps::set_weights<0>;
  (this->*set)(axis, tap_count);
  for (int i = end - begin; i < pair_stride; ++i) first[i] = first_pixel;
}

}  // namespace penstock::detail
