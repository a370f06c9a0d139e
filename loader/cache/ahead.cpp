// Ahead: a queue of shards and the threads that empty it.
#include "loader/cache/ahead.h"

#include <cstdlib>
#include <map>
#include <utility>

#include "core/error.h"

namespace penstock::detail {

Ahead& Ahead::instance() {
  static auto& ahead = *new Ahead;
  return ahead;
}

Ahead::Ahead() : cache_(ShardCache::instance()) {
  for (int i = 0; i < kThreads; ++i) threads_.emplace_back([this] { run(); });
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

void Ahead::expect(std::vector<FarShard> shards, bool is_order) {
  std::map<std::string, uint64_t> next_uses;
  if (is_order)
    for (size_t i = 0; i < shards.size(); ++i) next_uses.emplace(shards[i].facts.xxh3, i);
  cache_.set_next_uses(std::move(next_uses));
  {
    const std::lock_guard lock(mutex_);
    expected_ = std::move(shards);
    next_ = 0;
  }
  changed_.notify_all();
}

void Ahead::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return is_ending_ || next_ < expected_.size(); });
    if (is_ending_) return;
    const FarShard shard = expected_[next_++];
    lock.unlock();
    try {
      cache_.fetch_ahead(shard);
    } catch (const Error&) {
    }
    lock.lock();
  }
}

}  // namespace penstock::detail
