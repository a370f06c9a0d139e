// Step tasks: the steps of a mode as tasks of its ranks' threads.
#pragma once

#include "train/parallel/plan/rank_tasks.h"

namespace penstock::detail {

/// `steps` steps, one after the other. Each rank has these streams: the training thread, the communicator's thread for
/// sums, the one that receives messages, its way into an emulated network, and the workers of its loader, which may be
/// `prefetch` + 1 batches ahead.
///
///     training   | zero | F | F | B | B block by block | wait | update | wait |
///     sums                            | bucket 0 | bucket 1  |        | gathers (zero) |
///     loader     | batch 1     | batch 2     | ...
StepTasks tasks_of(const StepCase& step, int steps);

}  // namespace penstock::detail
