// Clock: the one monotonic time by which every stage of every mode is measured.
#pragma once

#include <sys/types.h>
#include <time.h>

#include <chrono>
#include <cstdint>

namespace penstock {

/// The monotonic clock (CLOCK_MONOTONIC) in nanoseconds. Values can be compared between processes of one machine. Costs
/// about 20 ns per call.
inline int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Processor time in nanoseconds of the calling thread (CLOCK_THREAD_CPUTIME_ID, a system call of about 150 ns) or of
/// the process (CLOCK_PROCESS_CPUTIME_ID). Time during which the scheduler ran something else does not count.
inline int64_t cpu_ns(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

/// Nanoseconds for which a thread of this process was ready to run but had no core (proc(5), schedstat); 0 where the
/// kernel does not report it. Costs about 10 us per call.
int64_t queued_ns(pid_t thread);
pid_t this_thread();

/// What the system has read for a thread of this process.
struct StorageUse {
  int64_t major_faults = 0;  ///< How often the thread waited for a page of a mapped file (proc(5), stat).
  /// Bytes read from block devices (proc(5), io). File systems over a network and FUSE count none.
  int64_t read_bytes = 0;
};
/// The numbers are 0 where the kernel does not report them. Costs about 20 us.
StorageUse storage_use(pid_t thread);

/// Keeps the processor busy until the calling thread has used `ns` more nanoseconds of processor time.
inline void burn_cpu(int64_t ns) {
  const int64_t end_ns = cpu_ns(CLOCK_THREAD_CPUTIME_ID) + ns;
  while (cpu_ns(CLOCK_THREAD_CPUTIME_ID) < end_ns) {
  }
}

constexpr double ms_of(int64_t ns) { return static_cast<double>(ns) * 1e-6; }
inline double ms_since(int64_t start_ns) { return ms_of(now_ns() - start_ns); }

}  // namespace penstock
