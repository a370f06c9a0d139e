// blur_shape(): the part of a blur's weights that takes more than sums and products.
#include "augment/pixels/blur_taps.h"

#include <cmath>

namespace penstock::detail {

/// The box is that of Pillow (13.0, BoxBlur.c): three passes of it have the variance of the normal distribution
/// (Gwosdek et al. 2011, "Theoretical Foundations of Gaussian Convolution by Extended Box Filtering", eq. 7, 11, 14).
float blur_shape(float deviation, int kernel) {
  const double variance = static_cast<double>(deviation) * deviation;
  if (kernel > 0) return static_cast<float>(std::exp(-1 / (2 * variance)));
  const double of_pass = variance / blur_passes(kernel);
  const double whole = std::floor((std::sqrt(12 * of_pass + 1) - 1) / 2);
  const double part =
      (2 * whole + 1) * (whole * (whole + 1) - 3 * of_pass) / (6 * (of_pass - (whole + 1) * (whole + 1)));
  return static_cast<float>(whole + part);
}

}  // namespace penstock::detail
