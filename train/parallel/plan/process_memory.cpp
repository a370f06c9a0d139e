// Process memory: the peak starts anew.
#include "train/parallel/plan/process_memory.h"

#include <malloc.h>
#include <sys/resource.h>

#include <fstream>

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

}  // namespace penstock::detail
