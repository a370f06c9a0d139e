// Watch: measures a loop that takes batches from a loader, so that find_bottleneck() can say what limits it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "loader/batch/loader.h"
#include "loader/bottleneck/bottleneck.h"

namespace penstock {

/// The time of a loop is that between its calls of Loader::next() and in them. What happens between the end of an epoch
/// and the first batch of the next one, such as an evaluation, does not count.
///
/// Costs two clock calls per step, and about 10 us per thread of the process and epoch.
/// Thread-safety: for one thread at a time. The time for which an epoch's first thread queues for a core is the loop's,
/// whichever thread ends the watch; it counts as none if that thread has ended before.
class Watch {
 public:
  explicit Watch(const LoaderStatistics& now) : before_(now) {}

  void begin_wait();                    ///< next() is about to be called.
  void end_wait(int64_t global_count);  ///< It has returned a batch with this many samples of all ranks.
  void pause();                         ///< It has returned nothing, or another epoch is begun.
  int64_t step_count() const { return step_count_; }

  /// What was measured. `run` has workers, cores, ranks, update_threads and is_async; `now` is of the same loader as
  /// the constructor's. Requires that the watch is paused.
  LoopMeasurement observed(LoopMeasurement run, const LoaderStatistics& now) const;

 private:
  /// Counters that only grow, in milliseconds.
  struct Counters {
    double process_cpu = 0, queued = 0, all_queued = 0, busy_cores = 0;
    static Counters now(pid_t thread);  ///< `queued` is of this thread.
  };

  LoaderStatistics before_;
  Counters begin_, sum_;
  bool is_running_ = false;
  pid_t thread_ = 0;  // that took the first batch since the last pause
  int64_t begin_ns_ = 0, wait_begin_ns_ = 0;
  int64_t total_ns_ = 0, wait_ns_ = 0;
  int64_t step_count_ = 0, image_count_ = 0;
};

/// What to say about a loop of less than 100 ms instead of what limits it; "" for a longer one. The kernel counts busy
/// cores in ticks of 4 ms, and the first batches were ready before the watch began: such a loop is measured as
/// anything.
std::string too_short_text(const LoopMeasurement& run);

}  // namespace penstock
