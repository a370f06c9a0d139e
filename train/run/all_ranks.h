// all_ranks: what was measured at one rank becomes what is known of all of them.
#pragma once

#include "train/comm/comm.h"
#include "train/limit.h"

namespace penstock {

/// Collective: over_ranks() of what all ranks have observed, with the mean step of each of them.
Observed over_all_ranks(const Observed& mine, const StepTimes& step, Comm& comm, const torch::Device& device);

}  // namespace penstock
