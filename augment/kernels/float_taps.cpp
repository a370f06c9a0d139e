// FloatTaps: the weights of a filter, divided by their sum.
#include "augment/kernels/float_taps.h"

#include <algorithm>

namespace penstock::detail {

FloatTaps::FloatTaps(const Axis& axis) : first_pixel(axis.input_size), tap_count(detail::tap_count(axis)) {
  while (begin < axis.output_size && !axis.holds(axis.center(begin))) ++begin;
  for (end = begin; end < axis.output_size && axis.holds(axis.center(end));) ++end;
  const auto stride = static_cast<size_t>(count());
  weights.assign(stride * static_cast<size_t>(tap_count), 0);
  const double inverse = 1 / axis.unit();
  with_kernel(axis.kernel, [&](auto kernel) {
    constexpr TapKernel kKernel = decltype(kernel)::value;
    for (int i = 0; i < count(); ++i) {
      const double center = axis.center(begin + i);
      const TapSpan span = tap_span(axis, center);
      const auto height = [&](int pixel) { return tap_weight<kKernel>((pixel + 0.5 - center) * inverse); };
      double total = 0;
      for (int pixel = span.begin; pixel < span.end; ++pixel) total += height(pixel);
      const bool is_one = kKernel == TapKernel::kBox && total == 0;  // as weigh_taps()
      for (int pixel = span.begin; pixel < std::min(span.end, span.begin + tap_count); ++pixel)
        weights[static_cast<size_t>(pixel - span.begin) * stride + static_cast<size_t>(i)] =
            static_cast<float>(is_one ? pixel == span.begin : height(pixel) / total);
      first.push_back(span.begin);
      first_pixel = std::min(first_pixel, span.begin);
      pixel_end = std::max(pixel_end, span.end);
    }
  });
}

}  // namespace penstock::detail
