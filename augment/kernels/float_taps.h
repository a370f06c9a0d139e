// FloatTaps: what Taps are to pictures of u8, for rasters: f32 weights in place of fixed point.
#pragma once

#include <cstdint>
#include <vector>

#include "augment/pixels/tap_weights.h"

namespace penstock::detail {

/// The taps of one axis: of output pixel begin + i, `weights[k * count + i]` for the pixel first[i] + k. Weights of
/// pixels outside of the filter are 0, and those pixels may not have been decoded.
struct FloatTaps {
  int begin = 0, end = 0;              // output pixels whose centres are in the picture; the others take the fill
  int first_pixel = 0, pixel_end = 0;  // picture pixels from the first tap to the last one
  int tap_count = 0;
  std::vector<int32_t> first;
  std::vector<float> weights;

  explicit FloatTaps(const Axis& axis);

  int count() const { return end - begin; }
};

}  // namespace penstock::detail
