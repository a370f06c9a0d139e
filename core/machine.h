// Machine: how many cores this process may keep busy, and the name of the processor.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace penstock {

/// The number of cores on which the scheduler lets this process run (set by taskset or by a launcher's binding).
int bound_cores();

/// The quota that control groups set for a process, in cores (seconds of processor time per second): the smallest quota
/// of its own group and of all groups above it, or nothing where no group sets one. `groups` is the text of
/// /proc/self/cgroup and `mount` is /sys/fs/cgroup. Reads version 2 (cpu.max) and version 1 (cpu.cfs_quota_us). A file
/// that cannot be read counts as no quota, because inside a container the groups above its own are not visible.
std::optional<double> quota_cores(const std::string& groups, const std::filesystem::path& mount);

/// The number of cores that this process can keep busy: the smaller of bound_cores() and the quota rounded up, at least
/// 1.
int usable_cores();

/// The number of processes and threads that control groups allow (pids.max). As in quota_cores(), it is the smallest
/// limit of all visible groups, or nothing where no group has one.
std::optional<int64_t> pids_limit(const std::string& groups, const std::filesystem::path& mount);
std::optional<int64_t> pids_limit();  ///< The limit of this process.

/// The bytes of memory that control groups allow (memory.max, memory.limit_in_bytes), page cache included. As in
/// quota_cores(), it is the smallest limit of all visible groups, or nothing where no group has one.
std::optional<uint64_t> memory_limit(const std::string& groups, const std::filesystem::path& mount);
/// The bytes that this process may use for more of its data and of the page cache: what the kernel calls available, or
/// the limit of its control groups if that is less. 0 where neither can be found out.
uint64_t available_memory();

/// Bytes of this process that are in memory, and the most that were. The peak of getrusage(2) begins with that of the
/// program that started this one, of a large Python for example; this one does not. 0 where the system does not say.
int64_t resident_bytes();
int64_t peak_resident_bytes();

/// Milliseconds for which the cores that this process may run on have been busy since the machine started, with any
/// program, summed over the cores. Time that a hypervisor gave to another machine counts too. The resolution is that of
/// the kernel's ticks, about 4 ms; 0 where the kernel does not report it. Costs about 50 us, plus 2 us per core.
double busy_cores_ms();
/// The same from the text of /proc/stat, for the cores for which `is_usable` returns true. `ticks_per_second` is that
/// of sysconf(3).
double busy_cores_ms(const std::string& stat, long ticks_per_second, const std::function<bool(int)>& is_usable);

/// Less than this is the error of the kernel's ticks, or its housekeeping, and not another program.
constexpr double kLeastOtherCores = 0.1;
/// The clause of a sentence that says it: ", while other programs had 0.9 of 2 cores".
std::string others_text(double other_cores, int core_count);

/// Milliseconds for which the present threads of this process were ready to run but had no core, summed over the
/// threads (proc(5), schedstat). Costs about 10 us per thread.
double queued_threads_ms();

/// The number of file descriptors that this process may have open at a time (`ulimit -n`), and the number of those that
/// are open.
struct Descriptors {
  int64_t limit = 0, open = 0;
};
Descriptors descriptors();

/// The model name in /proc/cpuinfo; "" where there is none.
std::string processor_name();

}  // namespace penstock
