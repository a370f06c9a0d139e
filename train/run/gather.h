// all_ranks: what was measured at one rank becomes what is known of all of them.
#pragma once

#include <string>
#include <vector>

#include "train/comm/comm.h"
#include "train/feed/feeder.h"
#include "train/measure/bottleneck.h"

namespace penstock {

/// Collective: over_ranks() of what all ranks have observed, with the mean step of each of them and their
/// collectives. Requires as many of these at every rank.
RunMeasurement over_all_ranks(const LoopMeasurement& mine, const StepTimes& step,
                              const std::vector<StepCollectives>& collectives, Comm& comm, const torch::Device& device);

/// Collective: one entry per rank.
std::vector<int64_t> of_all_ranks(int64_t mine, Comm& comm, const torch::Device& device);

/// Collective: a line `rank 1: 30000 samples, 938 steps per epoch` for every rank; "" for one rank alone.
std::string ranks_text(const Feeder& feeder, Comm& comm, const torch::Device& device);

}  // namespace penstock
