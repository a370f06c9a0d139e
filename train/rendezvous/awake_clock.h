// Awake clock: time without that in which this process was stopped, by which waits for other processes are measured.
#pragma once

#include <cstdint>

namespace penstock {

/// now_ns() without the time in which this process, or the whole machine, was suspended for more than a second:
/// SIGSTOP, Slurm's `scontrol suspend`. A thread looks ten times per second whether the clock has jumped. Costs 50 ns;
/// the first call starts the thread; where the system gives none, no jump is seen.
int64_t awake_ns();

/// The last time that this process was suspended.
struct Pause {
  int64_t ns = 0;      ///< How long; 0: it never was.
  int64_t end_ns = 0;  ///< When it went on, by awake_ns().
};
Pause last_pause();

}  // namespace penstock
