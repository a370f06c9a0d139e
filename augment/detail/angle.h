// angle: sine and cosine with the same bits on every machine. libm promises a bound, not bits, and glibc takes another
// code path where the processor has fused multiply-add: the digest of an epoch would depend on it.
#pragma once

#include <cmath>

namespace penstock::detail {

struct SinCos {
  double sin = 0, cos = 1;
};

/// Of an angle in degrees. Reduced to +-45 degrees, where the Taylor polynomials up to x^17 are within 1e-17; error
/// below 3e-16 for |degrees| up to 1e6. Exact at multiples of 90. About 5 ns.
inline SinCos sin_cos(double degrees) {
  const double quarters = std::nearbyint(degrees / 90);
  const double x = (degrees - quarters * 90) * 0.017453292519943295;
  const double y = x * x;
  // Horner's scheme of the series: each factor divides by the next two integers.
  double sin = 1, cos = 1;
  for (int k = 16; k >= 2; k -= 2) {
    sin = 1 - sin * y * (1.0 / (k * (k + 1)));
    cos = 1 - cos * y * (1.0 / (k * (k - 1)));
  }
  sin *= x;
  switch (static_cast<long long>(quarters) & 3) {
    case 0:
      return {sin, cos};
    case 1:
      return {cos, -sin};
    case 2:
      return {-sin, -cos};
    default:
      return {-cos, sin};
  }
}

}  // namespace penstock::detail
