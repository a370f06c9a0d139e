// WorkerThreads: the threads of one loader's workers, in a oneTBB arena of their own.
#pragma once

#include <functional>
#include <memory>

namespace penstock::detail {

/// oneTBB starts its threads when there is work for them, and aborts or hangs when the system gives none. The
/// constructor therefore makes sure that there is a thread for every worker of every WorkerThreads alive: it tests
/// whether the system gives those that are missing, then makes oneTBB start them. They stay until the process ends.
///
/// Errors: the constructor throws device_error, which names the limits of the system.
class WorkerThreads {
 public:
  explicit WorkerThreads(int count);
  ~WorkerThreads();
  WorkerThreads(const WorkerThreads&) = delete;
  WorkerThreads& operator=(const WorkerThreads&) = delete;

  /// Runs `work` on one of the threads. Thread-safety: any thread. Requires that at most `count` of them run at once.
  void run(std::function<void()> work);

 private:
  struct Arena;
  std::unique_ptr<Arena> arena_;
};

}  // namespace penstock::detail
