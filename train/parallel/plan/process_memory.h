// What this process has in memory, as Linux counts it.
#pragma once

#include <string>

namespace penstock::detail {

/// A number of bytes in /proc/self/status: VmRSS, what of this process is in memory, or VmHWM, the most so far. 0 where
/// there is none.
double status_bytes(const std::string& name);

/// From now on VmHWM counts from what is in memory now, without what was freed before; returns that. Where the kernel
/// does not let a process do so, later peaks are too high.
double restart_peak();

}  // namespace penstock::detail
