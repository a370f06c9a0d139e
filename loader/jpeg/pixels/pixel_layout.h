// PixelLayout: the blocks and samples of each component that a region at a DCT scale needs, and how they become pixels.
#pragma once

#include <array>

#include "augment/plan/plan.h"
#include "loader/jpeg/base/geometry.h"

namespace penstock::detail {

/// The numbers [begin, end).
struct Range {
  int begin = 0, end = 0;
  int count() const { return end - begin; }
};

/// The layout of one component. Samples are numbered within the whole component at its scale.
struct ComponentLayout {
  int dct_size = 8;                // samples per block, across and down: 1, 2, 4 or 8
  int expand_x = 1, expand_y = 1;  // pixels per sample, across and down
  // Whether a triangle filter over the neighbours is used; otherwise samples are repeated.
  bool is_fancy_x = false, is_fancy_y = false;
  int width = 0, height = 0;        // in samples; samples of the last blocks outside of it are not used
  Range columns, rows;              // the samples that are needed, neighbours included
  Range block_columns, block_rows;  // the blocks that hold these samples
};

/// The choices are those of libjpeg (jdmaster.c, jdsample.c). A component that is subsampled in both directions is
/// decoded at a larger scale instead of being upsampled, where that is possible. The triangle filter is used for
/// factors of 2, but not at the scale 1/8.
struct PixelLayout {
  Region region;       // in pixels of the picture at that scale
  int mcu_height = 0;  // in pixels at that scale
  std::array<ComponentLayout, 3> components{};
  Range mcu_columns, mcu_rows;
  /// Whether a row of pixels may need samples of the MCU row below its own.
  bool looks_down = false;

  /// Requires 1 or 3 components, scale 1, 2, 4 or 8, and a region that is not empty and lies inside of the picture at
  /// that scale.
  PixelLayout(const JpegGeometry& geometry, const Region& region, int scale);
};

}  // namespace penstock::detail
