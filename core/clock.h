// Clock: one monotonic time for every stage of every mode.
#pragma once

#include <sys/types.h>
#include <time.h>

#include <chrono>
#include <cstdint>

namespace penstock {

/// Nanoseconds of the monotonic clock (CLOCK_MONOTONIC, about 20 ns a call), comparable over the processes of a
/// machine.
inline int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Processor time of a thread (CLOCK_THREAD_CPUTIME_ID, a system call of about 150 ns) or of the process
/// (CLOCK_PROCESS_CPUTIME_ID): what it cost, however often it was put aside meanwhile.
inline int64_t cpu_ns(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

/// How long a thread of this process could run and had no core (proc(5), schedstat); 0 where the kernel does not say.
/// About 10 us.
int64_t queued_ns(pid_t thread);
pid_t this_thread();

/// What a thread of this process has had read for it.
struct StorageUse {
  int64_t major_faults = 0;  ///< Times that it waited for a page of a mapped file (proc(5), stat).
  int64_t read_bytes = 0;    ///< From block devices (proc(5), io); file systems over a network or FUSE count none.
};
/// Zeros where the kernel does not say. About 20 us.
StorageUse storage_use(pid_t thread);

/// Keeps the processor busy for `ns` of this thread's time.
inline void burn_cpu(int64_t ns) {
  const int64_t end_ns = cpu_ns(CLOCK_THREAD_CPUTIME_ID) + ns;
  while (cpu_ns(CLOCK_THREAD_CPUTIME_ID) < end_ns) {
  }
}

inline double ms_since(int64_t start_ns) { return static_cast<double>(now_ns() - start_ns) * 1e-6; }

}  // namespace penstock
