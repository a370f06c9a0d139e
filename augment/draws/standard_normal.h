// standard_normal(): one number of the standard normal distribution from a stream.
#pragma once

#include <cmath>
#include <numbers>

#include "core/rng.h"

namespace penstock::detail {

/// Box & Muller 1958. libm may differ in the last bit between machines, which moves a magnitude by about 1e-15.
inline double standard_normal(Rng& rng) {
  const double radius = std::sqrt(-2 * std::log(1 - rng.uniform()));
  return radius * std::cos(2 * std::numbers::pi * rng.uniform());
}

}  // namespace penstock::detail
