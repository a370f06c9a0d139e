// Parallel: a counter, some threads, the first exception.
#include "loader/detail/parallel.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace penstock::detail {

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
  const auto work = [&] {
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
    std::vector<std::jthread> threads;
    for (size_t i = running; i > 0; --i) threads.emplace_back(work);
    std::unique_lock lock(mutex);
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
