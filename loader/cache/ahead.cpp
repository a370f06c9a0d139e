// Ahead: a queue of shards and the threads that empty it.
#include "loader/cache/ahead.h"

#include <cstdlib>
#include <system_error>
#include <utility>

#include "core/error.h"

namespace penstock::detail {

Ahead& Ahead::instance() {
  static auto& ahead = *new Ahead;
  return ahead;
}

Ahead::Ahead() : cache_(ShardCache::instance()) {
  try {
    for (int i = 0; i < kThreads; ++i) threads_.emplace_back([this] { run(); });
  } catch (const std::system_error&) {  // with fewer threads less is fetched ahead
  }
  std::atexit([] {
    auto& ahead = instance();
    {
      const std::lock_guard lock(ahead.mutex_);
      ahead.is_ending_ = true;
    }
    ahead.changed_.notify_all();
    ahead.cache_.end_transfers();
    for (auto& thread : ahead.threads_) thread.join();
  });
}

void Ahead::expect(const std::vector<FarShard>& shards) {
  {
    const std::lock_guard lock(mutex_);
    queue_.expect(shards);
  }
  changed_.notify_all();
}

void Ahead::fetch_next(const FarShard& shard) {
  {
    const std::lock_guard lock(mutex_);
    queue_.need_next(shard);
  }
  changed_.notify_one();
}

void Ahead::forget(const std::string& xxh3) {
  const std::lock_guard lock(mutex_);
  queue_.forget(xxh3);
}

void Ahead::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return is_ending_ || !queue_.empty(); });
    if (is_ending_) return;
    const FarShard shard = *queue_.pop();
    lock.unlock();
    try {
      cache_.fetch_ahead(shard);
    } catch (const Error&) {
    }
    lock.lock();
  }
}

}  // namespace penstock::detail
