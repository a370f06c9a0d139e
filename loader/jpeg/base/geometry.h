// JpegGeometry: where the blocks of a JPEG lie, in MCUs, blocks and pixels.
#pragma once

#include <array>

#include "augment/plan/plan.h"
#include "loader/jpeg/base/block_limits.h"
#include "loader/jpeg/base/header.h"

namespace penstock::detail {

struct JpegGeometry {
  struct Component {
    int h = 1, v = 1;     // blocks in an MCU, across and down
    int first_block = 0;  // number of the component's first block in the MCU
  };
  int height = 0, width = 0;  // pixels
  int component_count = 0;
  int max_h = 1, max_v = 1;
  int mcu_columns = 0, mcu_rows = 0;
  int mcu_blocks = 0;  // blocks per MCU
  std::array<Component, 4> components{};

  explicit JpegGeometry(const JpegHeader& header);
  int mcu_width() const { return 8 * max_h; }  // pixels
  int mcu_height() const { return 8 * max_v; }
};

/// A length of `full` pixels at DCT scale `scale`/8, rounded up as in libjpeg.
constexpr int scaled_length(int full, int scale) { return (full * scale + 7) / 8; }

}  // namespace penstock::detail
