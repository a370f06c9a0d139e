// Ring: decides which batch is made when, by which worker, in which slot. It does not know what a batch holds.
#pragma once

#include <sys/types.h>
#include <time.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "core/clock.h"
#include "core/mutex.h"
#include "loader/batch/worker_threads.h"

namespace penstock::detail {

/// What the kernel has counted for a thread up to one moment.
struct ThreadCounters {
  int64_t cpu_ns = 0, queued_ns = 0;
  StorageUse storage;
};

/// What a thread has used between two moments. Nothing when a counter has gone down: the thread has ended, and its
/// counters, or some of them, read as 0.
std::optional<ThreadCounters> used_between(const ThreadCounters& start, const ThreadCounters& end);

/// Batches have numbers (`sequence`), counted over epochs; batch s is made in slot s mod (prefetch + held). The rows of
/// a batch are made in chunks, each by one worker. Chunks are cut in the order of batches:
///
///     sequence      d      d+1        f        i-1
///     slot       [ready] [ready] [filling .. filling]   free   held
///                                    ^ chunks are cut here
///
/// d is the next batch to be taken, f the first one with rows that are in no chunk yet, and i the next one to be
/// issued. A batch is issued as soon as fewer than `prefetch` batches are issued and not taken, it is below the limit,
/// and its slot is free.
///
/// Workers are threads of one oneTBB arena. A worker that finds no chunk waits for 10 ms before it gives its thread
/// back to oneTBB. It waits on a condition variable, because the consumer needs the core.
///
/// Cost: one short lock per chunk. A chunk has as many rows as take about 100 us by the measured cost of a row, so that
/// small pictures do not pay for the lock and large ones do not wait for a straggler.
///
/// Errors: what `fill` throws comes out of the take() of its batch. When several chunks fail, it is the error of the
/// lowest rows, so that it does not depend on timing.
///
/// Thread-safety: restart() and take() are for one consumer thread; release() may be called on any.
class Ring {
 public:
  /// Makes rows [begin, end) of batch `sequence` in `slot`, and stops at the first row that fails. `worker` is below
  /// max(workers, 1) and used by one thread at a time.
  using Fill = std::function<void(int64_t sequence, int slot, int64_t begin, int64_t end, int worker)>;

  static constexpr int kHeldSlots = 2;  ///< Slots for batches that were taken last and are still in use.

  struct Options {
    int workers = 0;  ///< 0: take() makes the batch on the thread that calls it.
    int prefetch = 1;
    int64_t rows = 1;
    int held = kHeldSlots;  ///< Slots besides those of the batches that are made ahead.
    /// Called every 100 ms by a take() that waits for workers, or itself for something far away. It may throw.
    std::function<void()> on_wait = {};
  };
  Ring(const Options& options, Fill fill);
  ~Ring();  ///< Ends what the chunks in work wait for from far away, and drops the rest.
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  /// After this call, take() gives batch `first`, and no batch from `limit` on is made. What was issued is kept when
  /// the ring is at `first` already, and dropped otherwise.
  void restart(int64_t first, int64_t limit);

  struct Taken {
    int slot;
    bool was_ready;  // take() did not have to wait
  };
  /// Blocks until the next batch is ready. If its slot is held, that includes waiting for release().
  Taken take();
  void release(int slot);

  /// What one worker did since the ring was made.
  struct WorkerTime {
    int64_t busy_ns = 0;  ///< Wall-clock time of making rows.
    int64_t cpu_ns = 0;   ///< Processor time of its thread, with what taking and handing over costs.
    /// Time in which it could run and had no core. With workers 0, busy_ns' share of the thread's queueing.
    int64_t queued_ns = 0;
    StorageUse storage;  ///< What its thread read since its first row, for whatever purpose.
  };
  std::vector<WorkerTime> worker_times();

  /// For the consumer thread, which alone changes it and therefore reads it without the lock.
  int64_t next_sequence() const PENSTOCK_NO_THREAD_SAFETY_ANALYSIS { return next_; }

 private:
  enum class Phase { kFree, kFilling, kReady, kHeld };
  struct Slot {
    Phase phase = Phase::kFree;
    int64_t cut_rows = 0;  // rows that are in chunks already
    int chunks_in_work = 0;
    bool is_dropped = false;   // free as soon as no chunk is in work
    std::exception_ptr error;  // what the chunk that begins at error_row threw
    int64_t error_row = 0;
  };
  struct Chunk {
    int64_t sequence;
    int slot;
    int64_t begin, end;
  };
  struct Outcome {
    std::exception_ptr error;
    int64_t ns = 0;
  };
  struct Wake {  // filled under the lock, done after it: a woken thread would only wait for the lock
    int waiting_workers = 0, new_workers = 0;
    bool consumer = false;
  };
  struct Shift {  // a worker's time so far; while it is at work, also its thread's counters at the start
    WorkerTime time;
    clockid_t clock = 0;
    pid_t thread = 0;
    int64_t start_ns = 0;
    ThreadCounters start;
    bool is_on = false;
  };

  Slot& slot_of(int64_t sequence) PENSTOCK_REQUIRES(mutex_) {
    return slots_[static_cast<size_t>(sequence) % slots_.size()];
  }
  void issue(Wake& wake) PENSTOCK_REQUIRES(mutex_);
  void invite(int64_t chunks, Wake& wake) PENSTOCK_REQUIRES(mutex_);
  int64_t chunk_rows() const PENSTOCK_REQUIRES(mutex_);
  std::optional<Chunk> cut() PENSTOCK_REQUIRES(mutex_);
  std::optional<Chunk> wait_for_chunk() PENSTOCK_REQUIRES(mutex_);
  Outcome make(const Chunk& chunk, int worker) const;
  void finish(const Chunk& chunk, Outcome outcome, Wake& wake) PENSTOCK_REQUIRES(mutex_);
  void wait_for_batches() PENSTOCK_REQUIRES(mutex_);
  bool has_wanted() PENSTOCK_REQUIRES(mutex_);
  void make_on_this_thread() PENSTOCK_REQUIRES(mutex_);
  void work();
  static void begin(Shift& shift);
  static ThreadCounters counters_of(const Shift& shift);
  WorkerTime time_of(const Shift& shift) const;
  void wake_all(const Wake& wake);

  const int workers_;
  const int64_t ahead_;  // the most batches that are issued and not taken
  const int64_t rows_;
  const std::function<void()> on_wait_;
  const Fill fill_;
  std::atomic<bool> gives_up_{false};
  const std::function<bool()> is_over_;  // for whoever waits inside of fill_

  Mutex mutex_;
  CondVar work_or_stop_, ready_or_free_, all_gone_;
  std::vector<Slot> slots_ PENSTOCK_GUARDED_BY(mutex_);
  int64_t next_ PENSTOCK_GUARDED_BY(mutex_) = 0;    // d of the drawing
  int64_t issued_ PENSTOCK_GUARDED_BY(mutex_) = 0;  // i
  int64_t cut_ PENSTOCK_GUARDED_BY(mutex_) = 0;     // f
  int64_t limit_ PENSTOCK_GUARDED_BY(mutex_) = 0;
  double row_ns_ PENSTOCK_GUARDED_BY(mutex_) = 0;  // measured time of a row, smoothed; 0: none yet
  std::vector<int> idle_workers_ PENSTOCK_GUARDED_BY(mutex_);
  std::vector<Shift> shifts_ PENSTOCK_GUARDED_BY(mutex_);  // one entry per worker
  int crew_ PENSTOCK_GUARDED_BY(mutex_) = 0;               // workers that oneTBB was asked for and that have not ended
  int waiting_ PENSTOCK_GUARDED_BY(mutex_) = 0;            // those of the crew that wait and were not called
  int called_ PENSTOCK_GUARDED_BY(mutex_) = 0;  // those of the crew that were called and have not noticed it yet
  /// The consumer sleeps until all batches before this one are ready; 0: it does not sleep.
  int64_t wanted_end_ PENSTOCK_GUARDED_BY(mutex_) = 0;
  bool consumer_waits_ PENSTOCK_GUARDED_BY(mutex_) = false;  // it waits for the slot of the batch that it makes itself
  bool is_stopping_ PENSTOCK_GUARDED_BY(mutex_) = false;
  std::unique_ptr<WorkerThreads> threads_;  // null when workers is 0
};

}  // namespace penstock::detail
