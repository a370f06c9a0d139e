// limit_parallel: what limits ranks that wait for each other, from the steps of all of them.
#pragma once

#include <vector>

#include "train/recorder.h"

namespace penstock {

/// The share of the ranks' time, 0..1, that went into the bubble. `ranks`: the mean step of each rank. Time in which a
/// rank waited because another one waited for its loader is not counted, neither in the bubble nor in the steps.
double bubble_share(const std::vector<StepTimes>& ranks);

}  // namespace penstock
