// Taps: the weights of the triangle filter, rounded so that they sum to 1.
#include "augment/kernels/taps.h"

#include <algorithm>

namespace penstock::detail {

template <int kTaps>
void Taps::set_weights(const Axis& axis, int tap_limit) {
  const double reach = axis.reach(), inverse = 1 / reach;
  for (int i = 0; i < end - begin; ++i) {
    const auto put = [&](int tap, uint32_t weight) { pairs[tap / 2 * pair_stride + i] |= weight << (tap % 2 * 16); };
    const TapSpan span = weigh_taps<kTaps>(axis, axis.center(begin + i), reach, inverse, tap_limit, put);
    first[i] = span.begin;
    first_pixel = std::min(first_pixel, span.begin);
    pixel_end = std::max(pixel_end, span.end);
  }
}

void Taps::assign(const Axis& axis) {
  const int count = tap_count(axis);
  for (begin = 0; begin < axis.output_size && !axis.holds(axis.center(begin));) ++begin;
  for (end = begin; end < axis.output_size && axis.holds(axis.center(end));) ++end;
  pair_count = (count + 1) / 2;
  pair_stride = end - begin + kSpareTaps;
  first_pixel = axis.input_size;
  pixel_end = 0;
  first.resize(static_cast<size_t>(pair_stride));
  pairs.assign(static_cast<size_t>(pair_stride) * pair_count, 0);
  // The loop is unrolled for enlarging and for reductions down to half the size.
  const auto set = count == 2   ? &Taps::set_weights<2>
                   : count == 3 ? &Taps::set_weights<3>
                   : count == 4 ? &Taps::set_weights<4>
                                : &Taps::set_weights<0>;
  (this->*set)(axis, count);
  for (int i = end - begin; i < pair_stride; ++i) first[i] = first_pixel;
}

}  // namespace penstock::detail
