// What this process has in memory, as Linux counts it.
#pragma once

#include <cstdint>

namespace penstock::detail {

/// From now on peak_resident_bytes() counts from what is in memory now, without what was freed before; returns that.
/// Where the kernel does not let a process do so, later peaks are too high.
double restart_peak();

/// Page faults of this process so far, which the kernel answered with cleared memory.
int64_t pages_of_kernel();

}  // namespace penstock::detail
