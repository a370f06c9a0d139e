// Activity: whether ranks that were told to stop are still working.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>

namespace penstock::detail {

/// What /proc/PID says about a process; the defaults for a process that is gone.
struct Activity {
  /// State of its main thread, see proc(5): T is stopped. D if any of its threads waits for a disk, as the loader's
  /// workers do while the main thread waits for them.
  char state = '?';
  int64_t cpu_ticks = 0;  ///< Processor time of all its threads so far, in 1/sysconf(_SC_CLK_TCK) s.
};
Activity activity_of(pid_t process, const std::filesystem::path& proc = "/proc");
Activity parse_activity(const std::string& stat);

/// Whether a process that had the activity `before` a while ago is still working: it is not stopped, and it has used
/// the processor or waits for a disk. A process that waits for a stopped one is not working.
bool is_at_work(const Activity& before, const Activity& now);

}  // namespace penstock::detail
