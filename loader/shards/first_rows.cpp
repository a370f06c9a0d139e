// FirstRows: threads for as long as a fetch takes.
#include "loader/shards/first_rows.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <system_error>
#include <thread>
#include <utility>

#include "core/clock.h"
#include "core/error.h"
#include "loader/files/interrupt.h"

namespace penstock::detail {
namespace {

constexpr size_t kMostThreads = 24;  // of the 32 requests at a time that a process makes
constexpr auto kOnWaitEvery = std::chrono::milliseconds(100);
constexpr double kPatience_ms = 10'000;

/// Threads that take wishes until there are none, or it is over.
class Crew {
 public:
  using Step = std::function<void(size_t number)>;
  Crew(size_t count, Step step) : count_(count), step_(std::move(step)) {
    for (size_t i = 0; i < std::min(count_, kMostThreads); ++i) {
      try {
        threads_.emplace_back([this] { work(); });
        const MutexLock lock(mutex_);
        ++running_count_;
      } catch (const std::system_error&) {  // with fewer threads it takes longer
        break;
      }
    }
  }
  ~Crew() {
    is_over_ = true;
    for (auto& thread : threads_) thread.join();
  }
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  /// Whether all threads have ended, waiting for it a while.
  bool have_ended() {
    const MutexLock lock(mutex_);
    return ended_.wait_for(mutex_, kOnWaitEvery,
                           [this]() PENSTOCK_REQUIRES(mutex_) { return ended_count_ == running_count_; });
  }
  bool has_failed() const { return has_failed_; }

 private:
  void take(size_t number) {
    try {
      step_(number);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kCorrupt) throw;  // what is corrupt says nothing of other shards
    }
  }

  void work() {
    const InterruptScope::Check check = [this] { return is_over_.load(); };
    const InterruptScope scope(check);
    try {
      for (size_t number = next_++; number < count_ && !is_over_; number = next_++) take(number);
    } catch (const std::exception&) {  // an outage must not be met once per shard
      has_failed_ = is_over_ = true;
    }
    const MutexLock lock(mutex_);
    ++ended_count_;
    ended_.notify_one();
  }

  const size_t count_;
  const Step step_;
  std::atomic<size_t> next_{0};
  std::atomic<bool> is_over_{false}, has_failed_{false};
  Mutex mutex_;
  CondVar ended_;
  int running_count_ PENSTOCK_GUARDED_BY(mutex_) = 0;
  int ended_count_ PENSTOCK_GUARDED_BY(mutex_) = 0;
  std::vector<std::thread> threads_;
};

}  // namespace

void FirstRows::fetch(const std::vector<Wish>& wishes, const std::function<void()>& on_wait) {
  const int64_t begin_ns = now_ns();
  const auto run = [&](size_t count, const Crew::Step& step) {
    Crew crew(count, step);
    while (!crew.have_ended() && ms_since(begin_ns) < kPatience_ms && !is_interrupted())
      if (on_wait) on_wait();
    return !crew.has_failed();
  };
  std::vector<std::shared_ptr<ShardPart>> parts(wishes.size());  // null: not this one
  const auto open_part = [&](size_t number) {
    parts[number] = ShardPart::open(*wishes[number].slot, wishes[number].rows);
  };
  if (!run(wishes.size(), open_part)) return;
  std::vector<std::pair<size_t, size_t>> pieces;  // number of the part, and of its piece
  std::vector<std::atomic<size_t>> missing(parts.size());
  for (size_t number = 0; number < parts.size(); ++number) {
    if (!parts[number]) continue;
    missing[number] = parts[number]->piece_count();
    for (size_t piece = 0; piece < parts[number]->piece_count(); ++piece) pieces.emplace_back(number, piece);
  }
  run(pieces.size(), [&](size_t at) {
    const auto [number, piece] = pieces[at];
    if (!parts[number]->bring(piece) || --missing[number] > 0) return;
    parts[number]->finish();
    add(wishes[number].shard, parts[number]);
  });
}

void FirstRows::add(size_t shard, std::shared_ptr<const ShardPart> part) {
  const MutexLock lock(mutex_);
  parts_.insert_or_assign(shard, std::move(part));
  has_parts_.store(true, std::memory_order_release);
}

std::shared_ptr<const ShardPart> FirstRows::find(size_t shard, size_t row) const {
  if (!has_parts_.load(std::memory_order_acquire)) return nullptr;
  const MutexLock lock(mutex_);
  const auto found = parts_.find(shard);
  return found != parts_.end() && found->second->has(row) ? found->second : nullptr;
}

void FirstRows::drop(size_t shard) {
  if (!has_parts_.load(std::memory_order_acquire)) return;
  const MutexLock lock(mutex_);
  parts_.erase(shard);
  has_parts_.store(!parts_.empty(), std::memory_order_release);
}

}  // namespace penstock::detail
