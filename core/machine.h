// Machine: how many cores a process may keep busy, and what they are called.
#pragma once

#include <cstdint>
#include <filesystem>
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

/// As /proc/cpuinfo has it; "" where that says nothing.
std::string processor_name();

}  // namespace penstock
