// render_raster(): the rows of render() for pictures of u8, u16 or f32 with any number of channels.
#pragma once

#include "augment/pixels/layout.h"
#include "augment/pixels/picture.h"
#include "augment/plan/plan.h"

namespace penstock::detail {

/// Writes all pixels of the output but those of a border of copies and erased rectangles. Requires what render() does
/// of rasters, and a plan whose view is the whole picture.
void render_raster(const Picture& picture, const Plan& plan, const Normalization& normalization, Layout layout,
                   void* output);

}  // namespace penstock::detail
