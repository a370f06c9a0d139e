// TurnedJob: replaces a plan that turns by 90 degrees (EXIF orientations 5 to 8) by one that does not turn, for a
// transposed picture.
#pragma once

#include "augment/kernels/render_job.h"
#include "augment/plan/sampling.h"

namespace penstock::detail {

/// Holds the plan with its axes exchanged. Its job points into render_scratch().turned, which holds the transposed
/// footprint.
/// Requires sampling_axes(*from.plan).turns.
struct TurnedJob {
  TurnedJob(const RenderJob& from, int channels);
  TurnedJob(const TurnedJob&) = delete;

  Plan plan;
  RenderJob job;
};

inline SamplingAxes turned(const SamplingAxes& axes) {
  return {.are_filtered = axes.are_filtered, .turns = false, .x = axes.y, .y = axes.x};
}

}  // namespace penstock::detail
