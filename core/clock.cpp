// Clock: what the kernel reports about a thread.
#include "core/clock.h"

#include <unistd.h>

#include <cstdio>
#include <cstring>

namespace penstock {
namespace {

/// Opens /proc/self/task/<thread>/<name>; null where there is none.
std::FILE* open_of(pid_t thread, const char* name) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/self/task/%d/%s", static_cast<int>(thread), name);
  return std::fopen(path, "re");
}

}  // namespace

pid_t this_thread() {
  static thread_local const pid_t thread = gettid();  // no process of ours forks, so the number stays valid
  return thread;
}

int64_t queued_ns(pid_t thread) {
  std::FILE* const file = open_of(thread, "schedstat");
  if (file == nullptr) return 0;
  long long on_cpu = 0, queued = 0;
  const bool is_known = std::fscanf(file, "%lld %lld", &on_cpu, &queued) == 2;
  std::fclose(file);
  return is_known ? queued : 0;
}

StorageUse storage_use(pid_t thread) {
  StorageUse use;
  char line[512];
  if (std::FILE* const file = open_of(thread, "stat")) {
    // The line begins "71 (the name) S ...". The name may contain anything, so that fields are counted after the last
    // bracket. This is field 12 of proc(5).
    const char* const after_name = std::fgets(line, sizeof line, file) != nullptr ? std::strrchr(line, ')') : nullptr;
    long long faults = 0;
    if (after_name != nullptr && std::sscanf(after_name, ") %*c %*s %*s %*s %*s %*s %*s %*s %*s %lld", &faults) == 1)
      use.major_faults = faults;
    std::fclose(file);
  }
  if (std::FILE* const file = open_of(thread, "io")) {
    long long bytes = 0;
    while (std::fgets(line, sizeof line, file) != nullptr)
      if (std::sscanf(line, "read_bytes: %lld", &bytes) == 1) use.read_bytes = bytes;
    std::fclose(file);
  }
  return use;
}

}  // namespace penstock
