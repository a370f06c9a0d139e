// Parallel: threads that take their numbers from a counter, and the first exception of any of them.
#include "core/parallel.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <latch>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "core/limits.h"

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

}  // namespace

void run_parallel(size_t count, int jobs, const std::function<void(size_t, const std::atomic<bool>&)>& body,
                  const std::function<void()>& poll) {
  std::atomic<size_t> next{0};
  std::atomic<bool> stopped{false};
  std::mutex mutex;
  std::condition_variable ended;
  std::exception_ptr first;
  const size_t wanted = jobs > 0 ? static_cast<size_t>(jobs) : std::max(1u, std::thread::hardware_concurrency());
  size_t running = std::min(wanted, count);

  const auto fail = [&] {
    const std::lock_guard lock(mutex);
    if (!first) first = std::current_exception();
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
    const std::lock_guard lock(mutex);
    --running;
    ended.notify_all();
  };

  {
    const size_t thread_count = running;
    const auto threads = start_threads(thread_count, work);
    std::unique_lock lock(mutex);
    running -= thread_count - threads.size();
    if (threads.size() < thread_count && (jobs > 0 || threads.empty())) {
      stopped = true;
      first = std::make_exception_ptr(threads_error("jobs", static_cast<int>(thread_count),
                                                    static_cast<int>(threads.size()), "fewer jobs (--jobs)"));
    }
    all_started.count_down();
    while (!ended.wait_for(lock, std::chrono::milliseconds(100), [&] { return running == 0; })) {
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
  if (first) std::rethrow_exception(first);
}

}  // namespace penstock::detail
