// Clock: one monotonic time for every stage of every mode.
#pragma once

#include <chrono>
#include <cstdint>

namespace penstock {

/// Nanoseconds of the monotonic clock (CLOCK_MONOTONIC, about 20 ns a call), comparable over the processes of a
/// machine.
inline int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

inline double ms_since(int64_t start_ns) { return static_cast<double>(now_ns() - start_ns) * 1e-6; }

}  // namespace penstock
