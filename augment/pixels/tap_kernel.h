// TapKernel: the functions that weigh the pixels of an axis by their distance from an output pixel's centre, as
// Pillow's Resample.c (13.0) has them.
//
// They are made of f64 sums and products alone, without libm's sin(), whose last bit differs between machines and is
// another one on a CUDA device.
#pragma once

#include <cstdint>

#include "core/device_math.h"

namespace penstock::detail {

enum class TapKernel : int32_t { kTriangle, kBox, kHamming, kBicubic, kLanczos };

/// Half the width of the function: no pixel that is further away has a weight.
constexpr double support_of(TapKernel kernel) {
  return kernel == TapKernel::kBox ? 0.5 : kernel == TapKernel::kBicubic ? 2 : kernel == TapKernel::kLanczos ? 3 : 1;
}

/// Whether some weights are negative, so that a sum of levels may leave their range.
constexpr bool has_lobes(TapKernel kernel) { return kernel == TapKernel::kBicubic || kernel == TapKernel::kLanczos; }

constexpr double kPi = 3.14159265358979323846;

/// sin(pi * u) for 0 <= u <= 1, by its series up to the 17th power of at most pi / 2: within 1e-13.
inline double sine_of_pi(double u) {
  const double angle = kPi * (u > 0.5 ? 1 - u : u), square = angle * angle;
  double sum = 1;
  for (int k = 16; k > 0; k -= 2) sum = 1 - sum * square / (k * (k + 1));
  return angle * sum;
}

inline double hamming_weight(double x) {
  const double distance = absolute(x);
  if (distance >= 1) return 0;
  if (distance == 0) return 1;
  const double cosine = distance <= 0.5 ? sine_of_pi(0.5 - distance) : -sine_of_pi(distance - 0.5);
  return sine_of_pi(distance) / (kPi * distance) * (0.54 + 0.46 * cosine);
}

/// Keys 1981, with a = -0.5.
inline double bicubic_weight(double x) {
  const double distance = absolute(x);
  if (distance < 1) return (1.5 * distance - 2.5) * distance * distance + 1;
  if (distance < 2) return -0.5 * (((distance - 5) * distance + 8) * distance - 4);
  return 0;
}

/// sinc(x) * sinc(x / 3), where sin(3a) = 3 sin(a) - 4 sin(a)^3 saves one of the two series.
inline double lanczos_weight(double x) {
  const double distance = absolute(x);
  if (distance >= 3) return 0;
  if (distance < 1e-6) return 1;
  const double third = distance / 3, sine = sine_of_pi(third), angle = kPi * third, square = sine * sine;
  return square * (3 - 4 * square) / (3 * angle * angle);
}

/// The weight, before the weights of an output pixel are made to sum to 1, of a pixel whose centre is `x` output pixels
/// to the right. A pixel counts as an output pixel where the picture is enlarged.
template <TapKernel kKernel>
inline double tap_weight(double x) {
  if constexpr (kKernel == TapKernel::kBox) return x > -0.5 && x <= 0.5 ? 1 : 0;
  if constexpr (kKernel == TapKernel::kHamming) return hamming_weight(x);
  if constexpr (kKernel == TapKernel::kBicubic) return bicubic_weight(x);
  if constexpr (kKernel == TapKernel::kLanczos) return lanczos_weight(x);
  const double height = 1 - absolute(x);
  return height > 0 ? height : 0;
}

/// A kernel as a type, for overloads and generic lambdas.
template <TapKernel kKernel>
struct KernelTag {
  static constexpr TapKernel value = kKernel;
};

/// Calls use(KernelTag<kernel>()) for a kernel that is known at run time.
template <class Use>
inline auto with_kernel(TapKernel kernel, const Use& use) {
  switch (kernel) {
    case TapKernel::kBox:
      return use(KernelTag<TapKernel::kBox>());
    case TapKernel::kHamming:
      return use(KernelTag<TapKernel::kHamming>());
    case TapKernel::kBicubic:
      return use(KernelTag<TapKernel::kBicubic>());
    case TapKernel::kLanczos:
      return use(KernelTag<TapKernel::kLanczos>());
    case TapKernel::kTriangle:
      break;
  }
  return use(KernelTag<TapKernel::kTriangle>());
}

}  // namespace penstock::detail
