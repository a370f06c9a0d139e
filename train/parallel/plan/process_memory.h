// What this process has in memory, as Linux counts it.
#pragma once

#include <cstdint>
#include <functional>

namespace penstock::detail {

/// From now on peak_resident_bytes() counts from what is in memory now, without what was freed before; returns that.
/// Where the kernel does not let a process do so, later peaks are too high.
double restart_peak();

/// How often this process has touched a page that it did not have, without a read from a disk: minor faults, as
/// getrusage(2) counts them. Most are memory that the kernel has cleared for it.
int64_t pages_of_kernel();

/// Runs it until a run takes hardly any pages from the kernel, which clears them: in the first passes through a model
/// that may be a third of the time, and the heap of a process has its shape after two or three of them. At most five
/// times, and until three seconds have passed. Returns how often.
int settle(const std::function<void()>& run);

}  // namespace penstock::detail
