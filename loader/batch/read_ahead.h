// ReadAhead: reads the shards that the next batches need, and drops those that none needs, on a thread of its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <thread>

#include "core/mutex.h"
#include "loader/order/shard_schedule.h"
#include "loader/rows/loader_options.h"
#include "loader/rows/sample_order.h"
#include "loader/shards/dataset.h"

namespace penstock::detail {

/// Whether a loader with these options reads ahead. Throws config_error for ReadAheadChoice::kOn where the order uses
/// all shards at once.
bool reads_ahead(const Dataset& dataset, const SampleOrder& order, const LoaderOptions& options);

/// Determinism: changes no byte of a batch. A shard that is dropped too early is read again, and one that is read too
/// late is waited for.
/// Memory: on this machine's disks, the shards in use, and ahead of them as many bytes again, together at most half of
/// the memory that was available when it was made; but always those in use and one more per lane. Where that half is
/// enough, a window has been read before its epoch begins, and what is held does not change. Of shards that are far
/// away one per lane is fetched ahead, because the cache has its own limit.
/// Errors: none. What is wrong with a shard is said by the row that needs it.
/// Thread-safety: go_to() is for one thread at a time; counts may be asked on any.
class ReadAhead {
 public:
  /// Requires reads_ahead(). All three arguments must outlive it.
  ReadAhead(const Dataset& dataset, const SampleOrder& order, const LoaderOptions& options);
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  /// Batch `sequence`, counted over epochs, is the next one that is needed; none from `limit` on is. Waits only for a
  /// set on this machine's disks, and there only where the thread has not seen the batches in which a shard is used up:
  /// while it has no core, or the disk is slower than the batches, whoever makes rows would read shards that nobody
  /// drops.
  void go_to(int64_t sequence, int64_t limit);

  uint64_t read_count() const { return read_count_.load(std::memory_order_relaxed); }  ///< Shards so far.
  uint64_t dropped_count() const { return dropped_count_.load(std::memory_order_relaxed); }

 private:
  void work();
  void take(const ShardSchedule::Step& step);
  void read_next();

  const Dataset& dataset_;
  uint64_t batch_positions_, made_ahead_;
  bool is_far_;                   // the cache limits what is held
  int64_t most_behind_;           // batches
  ShardSchedule schedule_;        // of the thread, as is the next member
  std::deque<uint32_t> to_read_;  // shards
  Mutex mutex_;
  CondVar wake_, taken_;
  int64_t wanted_ PENSTOCK_GUARDED_BY(mutex_) = -1;       // by the latest go_to(); -1: the thread has taken all
  int64_t limit_ PENSTOCK_GUARDED_BY(mutex_) = 0;         // of the latest go_to()
  int64_t first_wanted_ PENSTOCK_GUARDED_BY(mutex_) = 0;  // by the first one since the thread has taken any
  bool ends_ PENSTOCK_GUARDED_BY(mutex_) = false;
  std::atomic<uint64_t> read_count_{0}, dropped_count_{0};
  std::thread thread_;
};

}  // namespace penstock::detail
