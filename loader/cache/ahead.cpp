// Ahead: a queue of shards and the threads that empty it.
#include "loader/cache/ahead.h"

#include <chrono>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "core/at_end.h"
#include "core/clock.h"
#include "core/error.h"

namespace penstock::detail {
namespace {

constexpr int64_t kQuiet_ns = 1'000'000'000;

}  // namespace

Ahead& Ahead::instance() {
  static auto& ahead = *new Ahead;
  return ahead;
}

Ahead::Ahead() : cache_(ShardCache::instance()) {
  try {
    for (int i = 0; i < kThreads; ++i) threads_.emplace_back([this] { run(); });
  } catch (const std::system_error&) {  // with fewer threads less is fetched ahead
  }
  at_end([] {
    auto& ahead = instance();
    {
      const MutexLock lock(ahead.mutex_);
      ahead.is_ending_ = true;
    }
    ahead.changed_.notify_all();
    ahead.cache_.end_transfers();
    for (auto& thread : ahead.threads_) thread.join();
  });
}

void Ahead::expect(const std::vector<FarShard>& shards) {
  {
    const MutexLock lock(mutex_);
    if (!std::exchange(has_expected_, true)) begin_ns_ = now_ns() + kQuiet_ns;  // a loader is about to begin
    queue_.expect(shards);
  }
  changed_.notify_all();
}

void Ahead::fetch_next(const FarShard& shard) {
  {
    const MutexLock lock(mutex_);
    queue_.need_next(shard);
  }
  changed_.notify_one();
}

void Ahead::forget(const std::string& sum) {
  const MutexLock lock(mutex_);
  queue_.forget(sum);
}

void Ahead::need_now() {
  {
    const MutexLock lock(mutex_);
    begin_ns_ = 0;
    is_needed_ = true;
  }
  changed_.notify_all();
}

Ahead::Parts::Parts() {
  auto& ahead = instance();
  const MutexLock lock(ahead.mutex_);
  if (ahead.parts_count_++ == 0) ahead.is_needed_ = false;
}

Ahead::Parts::~Parts() {
  auto& ahead = instance();
  {
    const MutexLock lock(ahead.mutex_);
    if (--ahead.parts_count_ == 0) ahead.begin_ns_ = ahead.is_needed_ ? 0 : now_ns() + kQuiet_ns;
  }
  ahead.changed_.notify_all();
}

bool Ahead::may_begin() const { return !queue_.empty() && parts_count_ == 0 && now_ns() >= begin_ns_; }

void Ahead::run() {
  MutexLock lock(mutex_);
  for (;;) {
    while (!is_ending_ && !may_begin()) {
      if (queue_.empty() || parts_count_ > 0)
        changed_.wait(mutex_);
      else
        changed_.wait_for(mutex_, std::chrono::nanoseconds(begin_ns_ - now_ns()));
    }
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
