// at_end: what a process still does when it ends.
#pragma once

#include <cstdlib>

namespace penstock {

/// Calls `end` when the process ends by exit(), a return from main() or std::quick_exit(), the newest first. `train`
/// ends by std::quick_exit(), because the destructors of LibTorch's statics take three tenths of the processor time of
/// a start and an end without a step (0.60 s with them, 0.42 s without: medians of five by ten, in turn).
/// Thread-safety: any thread.
inline void at_end(void (*end)()) {
  std::atexit(end);
  std::at_quick_exit(end);
}

}  // namespace penstock
