// Process memory: the peak starts anew.
#include "train/parallel/plan/process_memory.h"

#include <malloc.h>
#include <sys/resource.h>

#include <fstream>

#include "core/clock.h"
#include "core/machine.h"

namespace penstock::detail {

double restart_peak() {
  malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << 5;
  return static_cast<double>(resident_bytes());
}

int64_t pages_of_kernel() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

int settle(const std::function<void()>& run) {
  constexpr int kMost = 5;  // a heap that does not come to rest is what it is
  constexpr double kMostMs = 3000;
  constexpr int64_t kFew = 50;  // pages, of 2 MB where they are huge: a thousand of these take 0.2 s
  const int64_t start_ns = now_ns();
  for (int count = 1;; ++count) {
    const int64_t before = pages_of_kernel();
    run();
    if (pages_of_kernel() - before < kFew || count == kMost || ms_since(start_ns) > kMostMs) return count;
  }
}

}  // namespace penstock::detail
