// Comm probe: what ranks take to tell each other something.
#pragma once

#include "train/comm/comm.h"
#include "train/parallel/plan/machine_costs.h"

namespace penstock::detail {

/// Collective, of two ranks or more: a sum, a gather, a reduce-scatter and a message of two sizes, and a vote. Every
/// rank gets its own times and all ranks' cores.
void measure_collectives(Comm& comm, MachineCosts& costs);

}  // namespace penstock::detail
