// Ahead: fetches shards before they are needed.
#pragma once

#include <string>
#include <thread>
#include <vector>

#include "core/mutex.h"
#include "loader/cache/fetch_queue.h"
#include "loader/cache/shard_cache.h"

namespace penstock::detail {

/// Threads that bring the expected shards into the cache, in their order, as long as there is room without removing
/// any that are needed. They begin when somebody needs a whole shard, or 1 s after a set was opened or the last part of
/// a shard was read, so that the rows of the first batches have the link alone. What goes wrong here is not reported:
/// whoever needs the shard meets it as well. Thread-safety: any thread.
class Ahead {
 public:
  static constexpr int kThreads = 4;
  static Ahead& instance();

  /// Adds to what is expected; what is expected already goes before the rest.
  void expect(const std::vector<FarShard>& shards);
  /// Fetches a shard before all that is expected, and after those that this was said of before.
  void fetch_next(const FarShard& shard);
  /// Does not fetch a shard that still waits.
  void forget(const std::string& sum);
  void need_now();  ///< Somebody waits for a whole shard.

  /// While one lives, parts of shards are being read.
  class Parts {
   public:
    Parts();
    ~Parts();
    Parts(const Parts&) = delete;
    Parts& operator=(const Parts&) = delete;
  };

 private:
  Ahead();
  void run();
  bool may_begin() const PENSTOCK_REQUIRES(mutex_);

  ShardCache& cache_;
  Mutex mutex_;
  CondVar changed_;
  FetchQueue queue_ PENSTOCK_GUARDED_BY(mutex_);
  bool is_ending_ PENSTOCK_GUARDED_BY(mutex_) = false;
  bool has_expected_ PENSTOCK_GUARDED_BY(mutex_) = false;
  int parts_count_ PENSTOCK_GUARDED_BY(mutex_) = 0;
  // Somebody has waited for a whole shard since the first of the parts that are being read.
  bool is_needed_ PENSTOCK_GUARDED_BY(mutex_) = false;
  int64_t begin_ns_ PENSTOCK_GUARDED_BY(mutex_) = 0;  // not before
  std::vector<std::thread> threads_;
};

}  // namespace penstock::detail
