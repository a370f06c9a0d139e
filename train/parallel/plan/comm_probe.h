// Comm probe: what ranks take to tell each other something.
#pragma once

#include "train/comm/comm.h"
#include "train/parallel/plan/machine_costs.h"

namespace penstock::detail {

/// Collective, of two ranks or more, as the next one: what sums, gathers, a reduce-scatter and a vote take. Seconds of
/// this rank, cores of all ranks together.
CollectiveCosts measure_collectives(Comm& comm);

/// Between the ranks 0 and 1.
LineCost measure_messages(Comm& comm);

}  // namespace penstock::detail
