// What this process has in memory, as Linux counts it.
#pragma once

#include <cstdint>

namespace penstock::detail {

/// From now on peak_resident_bytes() counts from what is in memory now, without what was freed before; returns that.
/// Where the kernel does not let a process do so, later peaks are too high.
double restart_peak();

/// How often this process has touched a page that it did not have, without a read from a disk: minor faults, as
/// getrusage(2) counts them. Most are memory that the kernel has cleared for it.
int64_t pages_of_kernel();

}  // namespace penstock::detail
