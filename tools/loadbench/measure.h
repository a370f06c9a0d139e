// Measuring the loader for several numbers of workers, and digests of what it delivers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "loader/batch/loader.h"
#include "loader/shards/dataset.h"
#include "tools/loadbench/options.h"

namespace penstock {

/// The results for one number of workers.
struct BenchRun {
  int workers = 0;
  std::vector<double> epoch_images_per_second;  ///< One entry per epoch, of this rank's images.
  double images_per_second = 0;                 ///< Their median.
  double first_batch_ms = 0;                    ///< From the construction of a loader to the end of its first next().
  double other_cores = 0;       ///< Mean number of cores that other programs had while all runs took their turns.
  LoaderStatistics statistics;  ///< Covers the measured epochs, including batches that were made ahead and dropped.
  LinkStats link;               ///< What came from far away in the measured epochs.
  Extent extent;                ///< The extent of a rendered sample.
  size_t slot_bytes = 0;
  int64_t resident_bytes = 0;  ///< Memory of the process after this run's last epoch.
};

/// One run for each of options.workers. The consumer takes batches and drops them. The runs take turns epoch by epoch,
/// so that a change of the machine's speed meets all of them. No batch is made ahead for the next epoch, so that each
/// epoch contains the time of all its batches. Before the measurement, one epoch checks the checksums and brings the
/// data into memory.
std::vector<BenchRun> measure(const std::shared_ptr<const Dataset>& dataset, const Pipeline& pipeline,
                              const BenchOptions& options);

/// The digest of each epoch, in hex. Throws bug_error if two numbers of workers give different digests.
std::vector<std::string> digests(const std::shared_ptr<const Dataset>& dataset, const Pipeline& pipeline,
                                 const BenchOptions& options);

}  // namespace penstock
