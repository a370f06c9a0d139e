// Machine: reads the affinity mask, the quotas of control groups, limits and /proc/cpuinfo.
#include "core/machine.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <limits>
#include <sstream>

#include "core/clock.h"
#include "core/number_text.h"
#include "core/text.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

/// Control groups version 2: "200000 100000" is a quota of 2 cores; "max 100000" is no quota.
std::optional<double> version_2(const fs::path& folder) {
  std::ifstream file(folder / "cpu.max");
  double quota_us = 0, period_us = 0;
  if (!(file >> quota_us >> period_us) || period_us <= 0) return std::nullopt;
  return quota_us / period_us;
}

std::optional<double> version_1(const fs::path& folder) {
  std::ifstream quota(folder / "cpu.cfs_quota_us"), period(folder / "cpu.cfs_period_us");
  double quota_us = 0, period_us = 0;
  if (!(quota >> quota_us) || !(period >> period_us) || quota_us < 0 || period_us <= 0) return std::nullopt;
  return quota_us / period_us;
}

/// A limit of 64 is "64", no limit is "max". Both versions write the same.
std::optional<double> pids(const fs::path& folder) {
  std::ifstream file(folder / "pids.max");
  double count = 0;
  if (!(file >> count)) return std::nullopt;
  return count;
}

/// Version 2 writes "max" for no limit, version 1 the largest multiple of a page.
std::optional<double> memory_in(const fs::path& folder, const char* name) {
  constexpr double kNoLimit = 9e18;
  std::ifstream file(folder / name);
  double bytes = 0;
  if (!(file >> bytes) || bytes >= kNoLimit) return std::nullopt;
  return bytes;
}
std::optional<double> memory_2(const fs::path& folder) { return memory_in(folder, "memory.max"); }
std::optional<double> memory_1(const fs::path& folder) { return memory_in(folder, "memory.limit_in_bytes"); }

/// Lowers `least` to the smallest quota that `read` finds in `mount`/`group` or in a folder above it, up to `mount`.
template <class Read>
void take_least(std::optional<double>& least, const fs::path& mount, const std::string& group, const Read& read) {
  for (fs::path path = fs::path(group).lexically_normal();; path = path.parent_path()) {
    const auto quota = read(mount / path.relative_path());
    if (quota && (!least || *quota < *least)) least = quota;
    if (!path.has_relative_path()) return;
  }
}

bool has_word(const std::string& list, const std::string& word) {
  const auto words = split(list, ',');
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// The smallest limit that `controller` has in the process's own group or in a group above it.
template <class Read>
std::optional<double> least_limit(const std::string& groups, const fs::path& mount, const std::string& controller,
                                  const Read& version_2, const Read& version_1) {
  std::optional<double> least;
  std::istringstream lines(groups);
  for (std::string line; std::getline(lines, line);) {  // "0::/user.slice", "4:cpu,cpuacct:/docker/1f"
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), group = line.substr(second + 1);
    if (controllers.empty()) take_least(least, mount, group, version_2);
    if (!has_word(controllers, controller)) continue;
    for (const auto& name : {controllers, controller}) take_least(least, mount / name, group, version_1);
  }
  return least;
}

std::string own_groups() {
  std::ifstream file("/proc/self/cgroup");
  std::ostringstream groups;
  groups << file.rdbuf();
  return groups.str();
}

constexpr const char* kMount = "/sys/fs/cgroup";

/// Bytes, from a line of /proc/self/status, which gives kB; 0 without that line.
int64_t status_bytes(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    int64_t kilobytes = 0;
    if (word == name && status >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

}  // namespace

int64_t resident_bytes() { return status_bytes("VmRSS:"); }
int64_t peak_resident_bytes() { return status_bytes("VmHWM:"); }

int bound_cores() {
  cpu_set_t usable;
  CPU_ZERO(&usable);
  return sched_getaffinity(0, sizeof(usable), &usable) == 0 ? CPU_COUNT(&usable) : 1;
}

std::optional<double> quota_cores(const std::string& groups, const fs::path& mount) {
  return least_limit(groups, mount, "cpu", version_2, version_1);
}

int usable_cores() {
  const auto quota = quota_cores(own_groups(), kMount);
  const int bound = bound_cores();
  return quota ? std::clamp(static_cast<int>(std::ceil(*quota)), 1, bound) : bound;
}

std::optional<int64_t> pids_limit(const std::string& groups, const fs::path& mount) {
  const auto limit = least_limit(groups, mount, "pids", pids, pids);
  return limit ? std::optional(static_cast<int64_t>(*limit)) : std::nullopt;
}

std::optional<int64_t> pids_limit() { return pids_limit(own_groups(), kMount); }

std::optional<uint64_t> memory_limit(const std::string& groups, const fs::path& mount) {
  const auto limit = least_limit(groups, mount, "memory", memory_2, memory_1);
  return limit ? std::optional(static_cast<uint64_t>(*limit)) : std::nullopt;
}

uint64_t available_memory() {
  std::ifstream file("/proc/meminfo");
  uint64_t bytes = 0, kilobytes = 0;
  for (std::string word; file >> word;)
    if (word == "MemAvailable:" && file >> kilobytes) bytes = kilobytes * 1024;
  const auto limit = memory_limit(own_groups(), kMount);
  return limit && (bytes == 0 || *limit < bytes) ? *limit : bytes;
}

double busy_cores_ms(const std::string& stat, long ticks_per_second, const std::function<bool(int)>& is_usable) {
  std::istringstream lines(stat);
  double ticks = 0;
  for (std::string line; std::getline(lines, line);) {  // "cpu0 user nice system idle iowait irq softirq steal ..."
    if (line.rfind("cpu", 0) != 0 || line.size() < 4 || std::isdigit(static_cast<unsigned char>(line[3])) == 0)
      continue;
    std::istringstream fields(line.substr(3));
    int core = 0;
    double user = 0, nice = 0, system = 0, idle = 0, io_wait = 0, irq = 0, soft_irq = 0, steal = 0;
    fields >> core >> user >> nice >> system >> idle >> io_wait >> irq >> soft_irq;
    if (!fields || !is_usable(core)) continue;
    fields >> steal;
    ticks += user + nice + system + irq + soft_irq + steal;
  }
  return ticks * 1e3 / static_cast<double>(ticks_per_second);
}

double busy_cores_ms() {
  cpu_set_t usable;
  CPU_ZERO(&usable);
  if (sched_getaffinity(0, sizeof(usable), &usable) != 0) return 0;
  std::ifstream file("/proc/stat");
  std::string text;
  for (std::string line; std::getline(file, line) && line.rfind("cpu", 0) == 0;) text += line + "\n";
  return busy_cores_ms(text, sysconf(_SC_CLK_TCK),
                       [&](int core) { return core < CPU_SETSIZE && CPU_ISSET(core, &usable); });
}

std::string others_text(double other_cores, int core_count) {
  return concat(", while other programs had ", printed("%.1f", other_cores), " of ",
                count_text(static_cast<uint64_t>(core_count), "core"));
}

double queued_threads_ms() {
  double total_ms = 0;
  std::error_code ignored;  // the thread may end meanwhile
  for (const auto& thread : fs::directory_iterator("/proc/self/task", ignored))
    total_ms += ms_of(queued_ns(std::atoi(thread.path().filename().c_str())));
  return total_ms;
}

Descriptors descriptors() {
  Descriptors count;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
    count.limit = static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, std::numeric_limits<int64_t>::max()));
  std::error_code failure;  // reading the folder needs a descriptor itself; it fails when all are open
  const fs::directory_iterator all("/proc/self/fd", failure);
  count.open = failure == std::errc::too_many_files_open ? count.limit : 0;  // without /proc nobody knows
  if (!failure) count.open = std::distance(fs::begin(all), fs::end(all)) - 1;
  return count;
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.rfind("model name", 0) == 0) return line.substr(std::min(line.find(':') + 2, line.size()));
  return "";
}

}  // namespace penstock
