// Taps: the triangle's weights, rounded so that they sum to 1.
#include "augment/detail/taps.h"

#include <algorithm>

namespace penstock::detail {
namespace {

int clipped(double pixel, int size) { return static_cast<int>(std::clamp(pixel, 0.0, static_cast<double>(size))); }

double triangle(double distance) { return std::max(1 - std::fabs(distance), 0.0); }

}  // namespace

TapSpan tap_span(const Axis& axis, double center) {
  const double reach = axis.reach();
  return {clipped(std::floor(center - reach + 0.5), axis.input_size),
          clipped(std::ceil(center + reach - 0.5), axis.input_size)};
}

void Taps::assign(const Axis& axis) {
  const double reach = axis.reach(), inverse = 1 / reach;
  // An open interval of length 2 * reach holds ceil(2 * reach) pixel centres at most; one more would weigh nothing.
  const int tap_limit = std::max(clipped(std::ceil(2 * reach - 1e-9), axis.input_size), 1);
  for (begin = 0; begin < axis.output_size && !axis.holds(axis.center(begin));) ++begin;
  for (end = begin; end < axis.output_size && axis.holds(axis.center(end));) ++end;
  pair_count = (tap_limit + 1) / 2;
  pair_stride = end - begin + kSpareTaps;
  first_pixel = axis.input_size;
  pixel_end = 0;
  first.assign(static_cast<size_t>(pair_stride), 0);
  pairs.assign(static_cast<size_t>(pair_stride) * pair_count, 0);
  for (int i = begin; i < end; ++i) {
    const double center = axis.center(i);
    TapSpan span = tap_span(axis, center);
    span.end = std::min(span.end, span.begin + tap_limit);
    const auto weight = [&](int pixel) { return triangle((pixel + 0.5 - center) * inverse); };
    double total = 0;
    for (int pixel = span.begin; pixel < span.end; ++pixel) total += weight(pixel);
    const double unit = (1 << kWeightBits) / total;
    double sum = 0;
    uint32_t rounded_sum = 0;
    for (int pixel = span.begin; pixel < span.end; ++pixel) {
      sum += weight(pixel);
      const auto rounded = static_cast<uint32_t>(sum * unit + 0.5);
      const int tap = pixel - span.begin;
      pairs[tap / 2 * pair_stride + (i - begin)] |= (rounded - rounded_sum) << (tap % 2 * 16);
      rounded_sum = rounded;
    }
    first[i - begin] = span.begin;
    first_pixel = std::min(first_pixel, span.begin);
    pixel_end = std::max(pixel_end, span.end);
  }
  for (int i = end - begin; i < pair_stride; ++i) first[i] = first_pixel;
}

}  // namespace penstock::detail
