// WorkerThreads: the threads of one loader's workers, in a oneTBB arena of their own.
#pragma once

#include <functional>
#include <memory>

namespace penstock::detail {

/// oneTBB starts its threads when there is work for them, and aborts or hangs when the system gives none. So the
/// constructor sees to it that there is a thread for every worker of every WorkerThreads alive: it tries whether the
/// system gives those that are missing, then makes oneTBB start them, and they stay until the process ends.
///
/// Errors: the constructor throws device_error with the limits that the system has.
class WorkerThreads {
 public:
  explicit WorkerThreads(int count);
  ~WorkerThreads();
  WorkerThreads(const WorkerThreads&) = delete;
  WorkerThreads& operator=(const WorkerThreads&) = delete;

  /// Runs `work` on one of them. Thread-safety: any thread. Requires at most `count` at once.
  void run(std::function<void()> work);

 private:
  struct Arena;
  std::unique_ptr<Arena> arena_;
};

}  // namespace penstock::detail
