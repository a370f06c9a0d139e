// The checks that codecs share.
#pragma once

#include "core/error.h"
#include "core/text.h"
#include "loader/files/sample.h"

namespace penstock::detail {

/// Checks the size of a picture. Call it before anything is allocated for the picture.
inline void check_pixels(int64_t height, int64_t width) {
  if (height >= 1 && width >= 1 && height <= 65535 && width <= 65535 && height * width <= kMaxPixels) return;
  throw corrupt_error(concat("picture of ", height, " x ", width,
                             " pixels; expected sides from 1 to 65535 and at most ", kMaxPixels, " pixels"));
}

/// Checks the extent in the bytes against the one that the shard states, with which the loader has planned.
inline void check_extent(const Extent& found, const Extent& stated) {
  if (found == stated) return;
  throw corrupt_error(concat("picture of ", found.height, " x ", found.width, " x ", found.channels, "; expected ",
                             stated.height, " x ", stated.width, " x ", stated.channels,
                             ", as the sample's extent says"));
}

/// Checks that a picture of `found` channels can be decoded to the `wanted` channels.
inline void check_channels(int found, int wanted) {
  if (found == wanted || (wanted == 3 && found == 1)) return;
  throw corrupt_error(
      concat("picture of ", found, " channels; expected ", wanted, ", as the data set's manifest says"));
}

}  // namespace penstock::detail
