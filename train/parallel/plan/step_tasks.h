// Step tasks: the steps of a mode as tasks of its ranks' threads.
#pragma once

#include <vector>

#include "train/parallel/plan/machine_costs.h"
#include "train/parallel/plan/step_shape.h"
#include "train/parallel/plan/task_times.h"

namespace penstock::detail {

/// What a task is, for whoever waits for it.
enum class TaskKind { kLoad, kCompute, kSum, kMessage };

struct StepTasks {
  std::vector<Task> tasks;
  std::vector<TaskKind> kinds;                  // one entry per task
  std::vector<std::vector<size_t>> of_ranks;    // one entry per rank: the tasks of its training thread, in order
  std::vector<std::vector<size_t>> last_tasks;  // one entry per step: of each rank
};

/// `steps` steps, one after the other. Each rank has these streams: the training thread, the communicator's thread for
/// sums, the one that receives messages, its way into an emulated network, and the workers of its loader, which may be
/// `prefetch` + 1 batches ahead.
///
///     training   | zero | F | F | B | B block by block | wait | update | wait |
///     sums                            | bucket 0 | bucket 1  |        | gathers (zero) |
///     loader     | batch 1     | batch 2     | ...
StepTasks tasks_of(const PlannedMode& planned, const StepShape& shape, const MachineCosts& costs,
                   const std::vector<ParameterFacts>& parameters, int steps);

}  // namespace penstock::detail
