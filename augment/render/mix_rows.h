// mix_row(): mixes one rendered row of a batch with another.
#pragma once

#include "augment/draws/batch_plan.h"
#include "augment/pixels/layout.h"

namespace penstock {

/// Replaces `row` by the mixture of itself and `partner`. Both are rendered samples of this layout and extent. The
/// arithmetic is f32; f16, bf16 and u8 results are rounded to nearest even. The bits are the same on every instruction
/// set. Requires plan.kind != kNone and rows that do not overlap.
void mix_row(const BatchPlan& plan, Layout layout, const Extent& extent, const void* partner, void* row);

}  // namespace penstock
