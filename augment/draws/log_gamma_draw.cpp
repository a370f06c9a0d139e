// log_gamma_draw(): by rejection.
#include "augment/draws/log_gamma_draw.h"

#include <cmath>

namespace penstock::detail {
namespace {

/// A number in (0, 1): the middle of one of 2^32 equal intervals. It is never 0, so that its logarithm is finite.
double open_uniform(Rng& rng) { return (rng.next() + 0.5) * 0x1p-32; }

/// A draw of the standard normal distribution by the polar method (Marsaglia & Bray 1964). The method gives a pair; the
/// second number is discarded.
double normal(Rng& rng) {
  for (;;) {
    const double u = 2 * open_uniform(rng) - 1, v = 2 * open_uniform(rng) - 1, square = u * u + v * v;
    if (square < 1 && square > 0) return u * std::sqrt(-2 * std::log(square) / square);
  }
}

}  // namespace

double log_gamma_draw(double shape, Rng& rng) {
  const double d = shape + 1 - 1. / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = normal(rng), root = 1 + c * x;
    const double log_u = std::log(open_uniform(rng));
    if (root <= 0) continue;
    const double cube = root * root * root;
    if (log_u < 0.5 * x * x + d - d * cube + d * std::log(cube))
      return std::log(d * cube) + std::log(open_uniform(rng)) / shape;
  }
}

}  // namespace penstock::detail
