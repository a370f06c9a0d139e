// Observing: what was measured of a loop over a loader becomes what the model of bottleneck.h needs.
#pragma once

#include <cstdint>
#include <vector>

#include "loader/batch/loader.h"
#include "loader/bottleneck/bottleneck.h"
#include "loader/shards/dataset.h"

namespace penstock {

/// The mean step of one rank, in milliseconds.
struct MeasuredStep {
  double total_ms = 0;
  double wait_ms = 0;           ///< Part of `total_ms`: waiting for the loader.
  double communication_ms = 0;  ///< Part of `total_ms`: waiting for other ranks.
  double process_cpu_ms = 0;    ///< Processor time of all threads of the process.
  double queued_ms = 0;         ///< The thread that takes the batches was ready to run and had no core.
  double busy_cores_ms = 0;     ///< Processor time of all programs, on the cores that this process may use.
};

/// Fills in what the model of bottleneck.h needs from the measurements of this rank. `run` has everything else already.
LoopMeasurement observe(LoopMeasurement run, const MeasuredStep& step, const LoaderStatistics& loader,
                        int64_t step_count);

/// The same for a step of all ranks. Loading takes as long as at the slowest rank. If this rank waited for others that
/// waited for their loaders, this time counts as loading too.
LoopMeasurement over_ranks(LoopMeasurement mine, const std::vector<LoopMeasurement>& all);

/// How a loop would go whose step takes `step_ms` when every batch is ready, `step_cpu_ms` of it processor time of all
/// its threads. `loader` is from `made_batches` batches of `images_per_batch` images (of all ranks) that `run.workers`
/// workers made. `run` has workers, cores and ranks.
LoopMeasurement foresee(LoopMeasurement run, const LoaderStatistics& loader, double made_batches,
                        double images_per_batch, double step_ms, double step_cpu_ms);

/// If the run waited for its storage, measures how fast that is and how much smaller the data could be. This reads for
/// half a second and compresses some samples, which are of the shards of `share`.
void ask_storage(LoopMeasurement& run, const Dataset& dataset, const RankShards& share);

}  // namespace penstock
