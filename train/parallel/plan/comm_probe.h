// Comm probe: what ranks take to tell each other something.
#pragma once

#include "train/comm/comm.h"
#include "train/parallel/plan/machine_costs.h"

namespace penstock::detail {

/// Collective, of two ranks or more. Writes `ranks`, `shares_memory`, and what sums, gathers, a reduce-scatter and
/// a message take, as lines through 64 KiB and 8 MiB, and a vote: seconds of this rank, cores of all ranks
/// together.
void measure_collectives(Comm& comm, MachineCosts& costs);

}  // namespace penstock::detail
