// Parallel: threads that take their numbers from a counter, and the first exception of any of them.
#include "core/parallel.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <latch>
#include <system_error>
#include <thread>
#include <vector>

#include "core/limits.h"
#include "core/mutex.h"

namespace penstock::detail {
namespace {

/// Starts `wanted` threads, or as many of them as the system gives.
std::vector<std::jthread> start_threads(size_t wanted, const std::function<void()>& work) {
  std::vector<std::jthread> threads;
  threads.reserve(wanted);
  try {
    while (threads.size() < wanted) threads.emplace_back(work);
  } catch (const std::system_error&) {  // the caller counts the threads
  }
  return threads;
}

/// What the threads of one call share.
struct Running {
  explicit Running(size_t threads) : count(threads) {}
  Mutex mutex;
  CondVar ended;
  size_t count PENSTOCK_GUARDED_BY(mutex);              // of threads that have not ended
  std::exception_ptr first PENSTOCK_GUARDED_BY(mutex);  // that any of them has thrown
};

}  // namespace

void run_parallel(size_t count, int jobs, const std::function<void(size_t, const std::atomic<bool>&)>& body,
                  const std::function<void()>& poll) {
  std::atomic<size_t> next{0};
  std::atomic<bool> stopped{false};
  const size_t wanted = jobs > 0 ? static_cast<size_t>(jobs) : std::max(1u, std::thread::hardware_concurrency());
  const size_t thread_count = std::min(wanted, count);
  Running state(thread_count);

  const auto fail = [&] {
    const MutexLock lock(state.mutex);
    if (!state.first) state.first = std::current_exception();
    stopped = true;
  };
  std::latch all_started(1);  // a thread that ends before the next one starts would not count for the limit
  const auto work = [&] {
    all_started.wait();
    try {
      for (size_t i = next++; i < count && !stopped; i = next++) body(i, stopped);
    } catch (...) {
      fail();
    }
    const MutexLock lock(state.mutex);
    --state.count;
    state.ended.notify_all();
  };

  {
    const auto threads = start_threads(thread_count, work);
    MutexLock lock(state.mutex);
    state.count -= thread_count - threads.size();
    if (threads.size() < thread_count && (jobs > 0 || threads.empty())) {
      stopped = true;
      state.first = std::make_exception_ptr(threads_error("jobs", static_cast<int>(thread_count),
                                                          static_cast<int>(threads.size()), "fewer jobs (--jobs)"));
    }
    all_started.count_down();
    while (!state.ended.wait_for(state.mutex, std::chrono::milliseconds(100),
                                 [&]() PENSTOCK_REQUIRES(state.mutex) { return state.count == 0; })) {
      if (!poll) continue;
      lock.unlock();
      try {
        poll();
      } catch (...) {
        fail();
      }
      lock.lock();
    }
  }
  const MutexLock lock(state.mutex);
  if (state.first) std::rethrow_exception(state.first);
}

}  // namespace penstock::detail
