// footprint(): what of a stored picture a plan reads, so that a decoder is asked for no more.
#pragma once

#include "augment/plan/plan.h"

namespace penstock {

/// The rectangle of the stored picture, in pixels, that the plan can read. It includes the margin that the filter needs
/// and is clipped to the view. Empty (width or height 0) when the plan reads only outside of the view.
Region footprint(const Plan& plan);

}  // namespace penstock
