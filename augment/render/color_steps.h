// render_colored(): render() for a plan with colour steps.
//
// Lives here: what is made of several passes over pixels, or of two rows.
// Not here: the passes (augment/kernels), and render() itself, which is interface (augment/render.h).
#pragma once

#include "augment/kernels/render_job.h"

namespace penstock::detail {

/// A step that looks at the picture splits the work into passes over planes of the output, which fit in the L2 cache
/// (602 KB at 224 x 224). Without such a step the sampling pass does everything.
void render_colored(RenderJob job, int channels);

}  // namespace penstock::detail
