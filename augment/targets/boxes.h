// move_boxes(): boxes under the plan of their picture.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "augment/plan/box.h"
#include "augment/plan/plan.h"

namespace penstock {

/// Which boxes stay. Each value is compared with 1e-6 added to it, so that a box that equals a limit stays. Without
/// rules only empty boxes go: those whose width or height inside of the output is at most 1e-6 pixels, or 0 as f32.
struct BoxRules {
  double min_share = 0;       // of the box's area that must be inside
  double min_area = 0;        // pixels of the output
  double min_size = 0;        // width and height, pixels of the output
  bool needs_center = false;  // the middle of the box must be inside, as RandomIoUCrop of torchvision has it
};

struct MovedBox {
  Box box;            // in the output
  float share = 0;    // area inside / area of the whole hull
  int64_t index = 0;  // in the boxes that were given
};

/// The boxes that stay, in their order. `boxes` are in the plan's picture (on_upright()).
///
/// The four corners of a box go through the plan's one map. Its hull is the rectangle along the axes around them. It is
/// clipped once: to what the view shows of the box, then to the output. So one edit gives the box of torchvision's
/// transforms.v2; of a chain of edits, which torchvision clips after each one, the box is contained in that one. In a
/// border of copies there are no boxes. A singular map leaves no box.
std::vector<MovedBox> move_boxes(std::span<const Box> boxes, const Plan& plan, const BoxRules& rules = {});

}  // namespace penstock
