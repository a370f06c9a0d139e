// Machine: how many cores a process may keep busy, and what they are called.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace penstock {

/// Cores that the scheduler lets this process run on (taskset, a launcher's binding).
int bound_cores();

/// Processor time a second that control groups leave a process, in cores: the least of its own group's and of all
/// groups above it; none where nothing limits it. `groups`: the text of /proc/self/cgroup; `mount`: /sys/fs/cgroup.
/// Version 2 (cpu.max) and version 1 (cpu.cfs_quota_us). What cannot be read limits nothing: in a container the groups
/// above its own cannot be seen.
std::optional<double> quota_cores(const std::string& groups, const std::filesystem::path& mount);

/// Cores that this process can keep busy: bound_cores(), or its quota, rounded up, where that is less.
int usable_cores();

/// How many processes and threads control groups allow (pids.max), as quota_cores(): the least of all groups that can
/// be seen; none where nothing limits it.
std::optional<int64_t> pids_limit(const std::string& groups, const std::filesystem::path& mount);
std::optional<int64_t> pids_limit();  ///< This process's.

/// Milliseconds that the cores which the scheduler lets this process run on have been busy since the machine started,
/// with whatever program, summed over the cores; also those that a hypervisor gave to another machine. In the kernel's
/// ticks of some 4 ms; 0 where it does not say. About 50 us, and 2 us more for every core.
double busy_cores_ms();
/// The same from the text of /proc/stat, with `ticks_per_second` of sysconf(3), of the cores that `is_usable` holds
/// for.
double busy_cores_ms(const std::string& stat, long ticks_per_second, const std::function<bool(int)>& is_usable);

/// Milliseconds for which the threads that this process has now could run and had no core, summed over them (proc(5),
/// schedstat). About 10 us for every thread.
double queued_threads_ms();

/// File descriptors that this process may have open at once (`ulimit -n`), and how many of them are open.
struct Descriptors {
  int64_t limit = 0, open = 0;
};
Descriptors descriptors();

/// As /proc/cpuinfo has it; "" where that says nothing.
std::string processor_name();

}  // namespace penstock
