// Taps: the weights of a filter, rounded so that they sum to 1.
#include "augment/kernels/taps.h"

#include <algorithm>

namespace penstock::detail {

template <TapKernel kKernel, int kTaps>
void Taps::set_weights(const Axis& axis, int tap_limit) {
  const double inverse = 1 / axis.unit();
  for (int i = 0; i < end - begin; ++i) {
    const auto put = [&](int tap, uint32_t weight) {
      pairs[tap / 2 * pair_stride + i] |= (weight & 0xFFFF) << (tap % 2 * 16);
    };
    const TapSpan span = weigh_taps<kKernel, kTaps>(axis, axis.center(begin + i), inverse, tap_limit, put);
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
  with_kernel(axis.kernel, [&](auto kernel) {
    constexpr TapKernel kKernel = decltype(kernel)::value;
    // The triangle's loop is unrolled for enlarging and for reductions down to half the size.
    if constexpr (kKernel == TapKernel::kTriangle) {
      if (count == 2) return set_weights<kKernel, 2>(axis, count);
      if (count == 3) return set_weights<kKernel, 3>(axis, count);
      if (count == 4) return set_weights<kKernel, 4>(axis, count);
    }
    set_weights<kKernel, 0>(axis, count);
  });
  for (int i = end - begin; i < pair_stride; ++i) first[i] = first_pixel;
}

}  // namespace penstock::detail
