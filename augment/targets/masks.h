// move_mask(): a mask under the plan of its picture.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "augment/plan/plan.h"

namespace penstock {

/// What stands in the border of copies of a plan (Plan::repeat_around).
enum class MaskBorder : uint8_t {
  kCopied,  // the mask's values are copied as the pixels are: each pixel keeps its class
  kFill,    // fill: a copy of an object is no object
};

/// The mask that belongs to the output: output_height x output_width values, row by row. The value of a pixel is that
/// of the mask's pixel under its centre, or `fill` where that lies outside of the view: the pixel that render() takes
/// with Filter::kNearest, whatever filter the plan has. PIL's Image.transform(AFFINE, NEAREST) takes the same one; it
/// computes in 16.16 fixed point, so that a centre within 2^-16 * (height + width) pixels of a border may fall on the
/// other side. Colours do not touch masks, and neither do erased rectangles: what stands under one is still there.
///
/// `mask` has a value per pixel of the plan's picture, input_height x input_width, row by row. For u8, u16 and i32.
template <class Value>
void move_mask(std::span<const Value> mask, const Plan& plan, Value fill, MaskBorder border, std::span<Value> output);

/// A mask of the upright picture as one of the stored picture, which is `stored_height` x `stored_width`; orientation
/// 1 to 8. A mask moved under the plan of the stored picture takes the very pixels that the picture takes, also where
/// a centre falls on a border of two pixels.
template <class Value>
std::vector<Value> as_stored(std::span<const Value> upright, int orientation, int stored_height, int stored_width);

}  // namespace penstock
