// The weights of a blur (ColorOp::kGaussianBlur): for render() and for the kernels of a CUDA device, which therefore
// give the same bits.
#pragma once

#include <cstdint>

#include "augment/pixels/border.h"

namespace penstock {

constexpr int kMaxBlurKernel = 127;      // pixels
constexpr float kMaxBlurDeviation = 60;  // pixels

/// Whether a plan may have a blur with this standard deviation and kernel, both in pixels. Kernel 0 is Pillow's blur.
constexpr bool is_blur(float deviation, int kernel) {
  const bool is_kernel = kernel == 0 || (kernel % 2 == 1 && kernel > 0 && kernel <= kMaxBlurKernel);
  return is_kernel && deviation > 0 && deviation <= kMaxBlurDeviation;
}

namespace detail {

/// What the weights are made of. With a kernel, exp(-1 / (2 s^2)) for the standard deviation s, of which the weight at
/// distance k is the power k^2; a device computes it with products alone. For Pillow's blur, the radius of the box.
float blur_shape(float deviation, int kernel);

/// A blur is made of passes along the rows, and as many along the columns. torchvision's has one, with weights of the
/// normal distribution. Pillow's has three of a box, whose outermost pixels count in part, and rounds to whole levels
/// after each of the six.
constexpr int blur_passes(int kernel) { return kernel == 0 ? 3 : 1; }
constexpr bool blur_rounds(int kernel) { return kernel == 0; }
constexpr Border blur_border(int kernel) { return kernel == 0 ? Border::kEdge : Border::kReflect; }

/// The weights of one pass: weight[k] is that of both pixels at distance k.
struct BlurTaps {
  static constexpr int kMaxReach = kMaxBlurKernel / 2;
  int32_t reach;
  float weight[kMaxReach + 1];
};

inline BlurTaps blur_taps(int kernel, float shape) {
  BlurTaps taps;
  taps.reach = 0;
  if (kernel == 0) {
    const auto whole = static_cast<int>(shape);
    const double inner = 1 / (2.0 * shape + 1);
    taps.reach = whole + 1;
    for (int k = 0; k <= whole; ++k) taps.weight[k] = static_cast<float>(inner);
    taps.weight[whole + 1] = static_cast<float>((shape - whole) * inner);
    return taps;
  }
  // The height at distance k is that at k - 1 times shape^(2k - 1).
  const double square = static_cast<double>(shape) * shape;
  double sum = 1, height = 1, factor = shape;
  for (int k = 1; k <= kernel / 2; ++k) {
    height *= factor, factor *= square;
    sum += 2 * height;
  }
  taps.weight[0] = static_cast<float>(1 / sum);
  height = 1, factor = shape;
  constexpr double kLeast = 1e-6;  // what is left out changes a level by less than 0.002
  for (int k = 1; k <= kernel / 2; ++k) {
    height *= factor, factor *= square;
    if (height < kLeast * sum) break;
    taps.reach = k;
    taps.weight[k] = static_cast<float>(height / sum);
  }
  return taps;
}

}  // namespace detail
}  // namespace penstock
