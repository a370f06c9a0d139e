// Parallel: numbered pieces of work on some threads, for tools that run before or beside training.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>

namespace penstock::detail {

/// Calls body(i, stopped) for i in 0 .. count-1, lower i first, on `jobs` threads (0: one per core, or fewer where the
/// system gives no more). When a body throws, no new one begins, `stopped` becomes true for those that run, and the
/// first exception is rethrown when all have ended. Throws device_error when the system does not give `jobs` threads.
/// Meanwhile the calling thread calls `poll` about ten times per second; what it throws stops the others too.
void run_parallel(size_t count, int jobs, const std::function<void(size_t, const std::atomic<bool>&)>& body,
                  const std::function<void()>& poll = {});

}  // namespace penstock::detail
