// Measuring the loader for several worker counts, and digesting what it delivers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "loader/dataset.h"
#include "loader/loader.h"
#include "tools/loadbench/options.h"

namespace penstock {

/// What one worker count gave.
struct BenchRun {
  int workers = 0;
  std::vector<double> epoch_images_per_second;  ///< Of this rank, an epoch.
  double images_per_second = 0;                 ///< Their median.
  double first_batch_ms = 0;                    ///< From the construction of the loader to the end of its first next().
  LoaderStatistics statistics;                  ///< Of the epochs measured, with what was made ahead in them.
  Extent extent;                                ///< Of a rendered sample.
  size_t slot_bytes = 0;
  int64_t resident_bytes = 0;  ///< Of the process, behind this run's last epoch.
};

/// One run for each of options.workers. The consumer takes batches and drops them. Epochs of the worker counts take
/// turns, so that a machine whose speed drifts is unfair to none; nothing is made ahead over an epoch's end, so that
/// each epoch pays for all of its batches. Before that, one epoch that does not count checks checksums and brings the
/// data into memory.
std::vector<BenchRun> measure(const std::shared_ptr<const Dataset>& dataset, const Pipeline& pipeline,
                              const BenchOptions& options);

/// The digest of each epoch, in hex. Throws bug_error when two worker counts disagree.
std::vector<std::string> digests(const std::shared_ptr<const Dataset>& dataset, const Pipeline& pipeline,
                                 const BenchOptions& options);

}  // namespace penstock
