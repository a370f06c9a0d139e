// Clock: what the kernel tells of threads.
#include "core/clock.h"

#include <unistd.h>

#include <cstdio>

namespace penstock {

pid_t this_thread() { return gettid(); }

int64_t queued_ns(pid_t thread) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/self/task/%d/schedstat", static_cast<int>(thread));
  std::FILE* const file = std::fopen(path, "re");
  if (file == nullptr) return 0;
  long long on_cpu = 0, queued = 0;
  const bool is_known = std::fscanf(file, "%lld %lld", &on_cpu, &queued) == 2;
  std::fclose(file);
  return is_known ? queued : 0;
}

}  // namespace penstock
