// PixelLayout: which blocks and samples of each component a region at a DCT scale needs, and how they become pixels.
#pragma once

#include <array>

#include "augment/plan.h"
#include "loader/jpeg/geometry.h"

namespace penstock::detail {

/// [begin, end).
struct Range {
  int begin = 0, end = 0;
  int count() const { return end - begin; }
};

/// One component. Samples are numbered in the whole component at its scale.
struct ComponentLayout {
  int dct_size = 8;                             // samples a block, across and down: 1, 2, 4 or 8
  int expand_x = 1, expand_y = 1;               // pixels a sample
  bool is_fancy_x = false, is_fancy_y = false;  // a triangle filter over the neighbours; otherwise samples are repeated
  int width = 0, height = 0;                    // samples; what lies beyond in the last blocks is not looked at
  Range columns, rows;                          // samples that are needed, neighbours included
  Range block_columns, block_rows;              // that hold them
};

/// libjpeg's choices (jdmaster.c, jdsample.c): a component that is subsampled in both directions is scaled less instead
/// of upsampled where that is possible; the triangle filter is for factors of 2 and not for the scale 1/8.
struct PixelLayout {
  Region region;       // pixels of the picture at its scale
  int mcu_height = 0;  // pixels at that scale
  std::array<ComponentLayout, 3> components{};
  Range mcu_columns, mcu_rows;
  /// A row of pixels needs samples of the MCU row below its own.
  bool looks_down = false;

  /// Requires: 1 or 3 components; scale 1, 2, 4 or 8; the region is not empty and lies inside.
  PixelLayout(const JpegGeometry& geometry, const Region& region, int scale);
};

}  // namespace penstock::detail
