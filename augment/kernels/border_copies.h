// copy_into_border(): writes the pixels outside of a padded picture as copies of those in it.
#pragma once

#include "augment/kernels/render_job.h"

namespace penstock::detail {

/// Requires that all rows of the job's output are rendered. Does nothing where the plan's border is kFill.
void copy_into_border(const RenderJob& job, int channels);

}  // namespace penstock::detail
