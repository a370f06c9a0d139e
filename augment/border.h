// Border: what stands around a picture that a crop has padded, for render() and for the kernels of a CUDA device.
#pragma once

#include <cstdint>

namespace penstock {

/// torchvision's padding_mode, whose "constant" is kFill. On the right, what stands around a row of pixels abcd.
enum class Border : int32_t {
  kFill,      // one level
  kEdge,      // aaa abcd ddd
  kReflect,   // dcb abcd cba
  kSymmetric  // cba abcd dcb
};

/// The number, from 0 to size - 1, of the pixel that stands at `at` along an axis whose picture has the pixels [0,
/// size). Where a picture is smaller than its border, it is mirrored again and again, as numpy.pad does.
/// Requires size > 0 and a border that is not kFill.
inline int pixel_at(Border border, int at, int size) {
  if (at >= 0 && at < size) return at;
  if (border == Border::kEdge || size == 1) return at < 0 ? 0 : size - 1;
  const bool repeats_edge = border == Border::kSymmetric;
  const int period = 2 * (repeats_edge ? size : size - 1);
  const int folded = (at % period + period) % period;
  return folded < size ? folded : repeats_edge ? period - 1 - folded : period - folded;
}

}  // namespace penstock
