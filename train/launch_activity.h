// Activity: whether ranks that were told to stop are still at it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace penstock::detail {

/// What /proc/PID/stat says of a process; of one that is gone, nothing.
struct Activity {
  char state = '?';       ///< Of its main thread, see proc(5): T stopped, D in the middle of a disk's work.
  int64_t cpu_ticks = 0;  ///< Processor time so far, of all threads, in 1/sysconf(_SC_CLK_TCK) s.
};
Activity activity_of(pid_t process);
Activity parse_activity(const std::string& stat);

/// Whether something can still come of a process that was `before` a while ago: it has not been stopped, and it has
/// used the processor or is at a disk's work. One that waits for a stopped process has not.
bool is_at_work(const Activity& before, const Activity& now);

}  // namespace penstock::detail
