// WorkerThreads: raises the number of oneTBB's threads, and makes oneTBB start them.
#include "loader/batch/worker_threads.h"

#include <tbb/global_control.h>
#include <tbb/task_arena.h>

#include <chrono>
#include <utility>

#include "core/limits.h"
#include "core/mutex.h"

namespace penstock::detail {
namespace {

/// Counts oneTBB's threads, each once, and can make it start more.
class Roll {
 public:
  int count() {
    const MutexLock lock(mutex_);
    return count_;
  }

  /// Gives oneTBB as many tasks as there shall be threads. No task ends before that many threads were seen, including
  /// those that are busy elsewhere. After a second the tasks end all the same, because the program may have its own
  /// limit for oneTBB.
  void call(int wanted) {
    if (!arena_) {
      arena_ = new tbb::task_arena(1, 0);  // never destroyed: without any arena oneTBB ends its threads
      arena_->initialize();
    }
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    const auto wait = [this, wanted, deadline] {
      const MutexLock lock(mutex_);
      seen_.wait_until(mutex_, deadline, [&]() PENSTOCK_REQUIRES(mutex_) { return count_ >= wanted; });
    };
    tbb::task_arena all(wanted, 0);
    for (int i = 0; i < wanted; ++i) {
      all.enqueue([this, wait] {
        add_this_thread();
        wait();
      });
    }
    wait();
  }

 private:
  void add_this_thread() {
    static thread_local bool is_known = false;
    if (std::exchange(is_known, true)) return;
    const MutexLock lock(mutex_);
    ++count_;
    seen_.notify_all();
  }

  Mutex mutex_;
  CondVar seen_;
  int count_ PENSTOCK_GUARDED_BY(mutex_) = 0;
  tbb::task_arena* arena_ = nullptr;
};

/// oneTBB makes hardware_concurrency - 1 threads at most and shares them between all arenas, so that workers beyond
/// that number would have no thread. This class raises the limit to the sum over all WorkerThreads alive, and never
/// lowers it.
class ThreadBudget {
 public:
  static ThreadBudget& instance() {
    static auto* const budget = new ThreadBudget;  // never destroyed: oneTBB's threads may still look at the roll
    return *budget;
  }

  void add(int workers) {
    const MutexLock lock(mutex_);
    const int wanted = workers_ + workers, missing = wanted - roll_.count();
    if (missing > 0) require_threads("loader", missing, "fewer workers");
    raise_limit(static_cast<size_t>(wanted) + 1);  // oneTBB counts one application thread
    if (missing > 0) roll_.call(wanted);
    workers_ = wanted;
  }
  void remove(int workers) {
    const MutexLock lock(mutex_);
    workers_ -= workers;
  }

 private:
  void raise_limit(size_t wanted) PENSTOCK_REQUIRES(mutex_) {
    if (wanted <= tbb::global_control::active_value(tbb::global_control::max_allowed_parallelism)) return;
    // The least of all live controls counts, so that the new one takes effect when the old one is destroyed.
    control_ = std::make_unique<tbb::global_control>(tbb::global_control::max_allowed_parallelism, wanted);
  }

  Mutex mutex_;
  int workers_ PENSTOCK_GUARDED_BY(mutex_) = 0;
  Roll roll_ PENSTOCK_GUARDED_BY(mutex_);  // only its call() needs it
  std::unique_ptr<tbb::global_control> control_ PENSTOCK_GUARDED_BY(mutex_);
};

}  // namespace

struct WorkerThreads::Arena {
  explicit Arena(int count) : count(count), arena(count, 0) { ThreadBudget::instance().add(count); }
  ~Arena() { ThreadBudget::instance().remove(count); }
  int count;
  tbb::task_arena arena;
};

WorkerThreads::WorkerThreads(int count) : arena_(std::make_unique<Arena>(count)) {}
WorkerThreads::~WorkerThreads() = default;

void WorkerThreads::run(std::function<void()> work) { arena_->arena.enqueue(std::move(work)); }

}  // namespace penstock::detail
