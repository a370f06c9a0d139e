// Ahead: fetches shards before they are needed.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "loader/cache/fetch_queue.h"
#include "loader/cache/shard_cache.h"

namespace penstock::detail {

/// Threads that bring the expected shards into the cache, in their order, as long as there is room without removing
/// any that are needed. What goes wrong here is not reported: whoever needs the shard meets it as well. Thread-safety:
/// any thread.
class Ahead {
 public:
  static constexpr int kThreads = 4;
  static Ahead& instance();

  /// Adds to what is expected; what is expected already goes before the rest.
  void expect(const std::vector<FarShard>& shards);
  /// Fetches a shard before all that is expected, and after those that this was said of before.
  void fetch_next(const FarShard& shard);
  /// Does not fetch a shard that still waits.
  void forget(const std::string& xxh3);

 private:
  Ahead();
  void run();

  ShardCache& cache_;
  std::mutex mutex_;
  std::condition_variable changed_;
  FetchQueue queue_;
  bool is_ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace penstock::detail
