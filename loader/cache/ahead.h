// Ahead: fetches shards before they are needed.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "loader/cache/shard_cache.h"

namespace penstock::detail {

/// Threads that bring the expected shards into the cache, in their order, as long as there is room without removing
/// others. What goes wrong here is not reported: whoever needs the shard meets it as well. Thread-safety: any thread.
class Ahead {
 public:
  static constexpr int kThreads = 4;
  static Ahead& instance();

  /// Adds to what is expected. `is_order`: replaces it, and is also the order of the next uses, by which the cache
  /// chooses what leaves it.
  void expect(const std::vector<FarShard>& shards, bool is_order);

 private:
  Ahead();
  void run();

  ShardCache& cache_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<FarShard> expected_;
  bool is_ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace penstock::detail
