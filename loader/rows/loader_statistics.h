// LoaderStatistics: where the time of a loader went.
#pragma once

#include <cstdint>
#include <vector>

#include "loader/far/link_stats.h"

namespace penstock {

/// Sums over all workers since construction. The stages of a sample are read (find it in the epoch, map it, check its
/// CRC), plan, decode and render.
///
/// A clock call costs about 25 ns and a small sample takes 1 us, so that not every sample is timed. `read` is timed
/// over up to 64 samples at once. The other stages are timed for one sample in 17 while a sample takes less than 20 us,
/// otherwise for every sample. `count` is the number of samples made; total times are that number times the mean of the
/// timed samples.
struct LoaderStatistics {
  struct StageTime {
    uint64_t count = 0;
    double total_ms = 0;
    double p99_us = 0;  // from a histogram on a logarithmic scale: within 10 %
    double mean_us() const { return count == 0 ? 0 : total_ms * 1e3 / static_cast<double>(count); }
  };
  /// One worker; with workers 0, the thread that calls next().
  struct Worker {
    double read_ms = 0, plan_ms = 0, decode_ms = 0, render_ms = 0;
    double busy_ms = 0;          // wall-clock time of making rows
    double idle_ms = 0;          // the rest of the wall-clock time since construction
    double cpu_ms = 0;           // processor time of its thread; with workers 0, of making rows only
    double queued_ms = 0;        // it could run and had no core; with workers 0, estimated for making rows only
    double storage_ms = 0;       // part of busy_ms: it neither ran nor queued, but waited for pages of the shards
    uint64_t major_faults = 0;   // pages that it waited for; 0 for all workers: storage_ms is 0 too
    uint64_t storage_bytes = 0;  // bytes read for it from block devices; 0 on FUSE and network file systems
  };
  StageTime read, decode, plan, render;  // per sample
  StageTime wait;                        // per call of next(): how long the consumer waited
  uint64_t batch_count = 0;
  uint64_t ready_count = 0;        // batches that were ready when next() was called
  uint64_t masked_count = 0;       // rows of corrupt samples, or with a corrupt partner, that were zeroed
  uint64_t substituted_count = 0;  // such rows that other samples have
  uint64_t sample_bytes = 0;       // stored bytes of the samples made
  uint64_t read_ahead_count = 0;   // shards that were read ahead (LoaderOptions::read_ahead)
  uint64_t dropped_count = 0;      // shards that were dropped from memory after their use
  std::vector<Worker> workers;     // one entry per worker
  LinkStats link;                  // of the process, since the loader was made

  /// Computes every worker's storage_ms. Loader::statistics() has called it already. While a worker makes rows, the
  /// only thing that it sleeps for is a page that is not in memory. A page fault of any worker shows that there was
  /// such a page; another worker may have waited for the same page without a fault of its own. Waits for shards from
  /// far away, which `link` has, are left out of it in proportion.
  void find_storage_waits();
  /// Times and bytes of all workers together; idle_ms, the stages and faults are 0.
  Worker all_workers() const;
  /// The mean time for which a sample waited for the storage. It is part of the other stages, mostly of read and
  /// decode. It has no histogram, so that p99_us is 0.
  StageTime storage() const;
};

}  // namespace penstock
