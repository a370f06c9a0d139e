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

/// Which pixel, 0 to size - 1, is shown at coordinate `at`, which may lie outside of [0, size). A picture that is
/// smaller than its border is mirrored again and again, as numpy.pad does.
/// Requires size > 0 and a border that is not kFill.
inline int pixel_at(Border border, int at, int size) {
  if (at >= 0 && at < size) return at;
  if (border == Border::kEdge || size == 1) return at < 0 ? 0 : size - 1;
  const bool repeats_edge = border == Border::kSymmetric;
  const int period = 2 * (repeats_edge ? size : size - 1);
  const int folded = (at % period + period) % period;
  return folded < size ? folded : repeats_edge ? period - 1 - folded : period - folded;
}

/// The widest border on one side of a window that cuts the picture on the other side, so that the window shows every
/// pixel that the border copies.
inline int widest_border(Border border, int window) {
  return border == Border::kEdge ? window - 1 : border == Border::kSymmetric ? window / 2 : (window - 1) / 2;
}

}  // namespace penstock
