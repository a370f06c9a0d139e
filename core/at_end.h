// at_end: what a process still does when it ends.
#pragma once

#include <cstdlib>

namespace penstock {

/// Calls `end` when the process ends by exit(), a return from main() or std::quick_exit(), the newest first. `train`
/// ends by std::quick_exit(), because the destructors of LibTorch's operators take 0.16 s of processor time, a fifth of
/// a start and an end without a step. Thread-safety: any thread.
inline void at_end(void (*end)()) {
  std::atexit(end);
  std::at_quick_exit(end);
}

}  // namespace penstock
