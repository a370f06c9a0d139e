// Times of a loader that waits for its disk, for tests.
#pragma once

#include "loader/bottleneck/bottleneck.h"

namespace penstock {

/// 8 ms of waiting for the disk and 2 ms of decoding per batch, and 4 ms per step.
inline StepCosts from_disk(double gain) {
  return {.load_ms = 10,
          .load_cpu_ms = 2,
          .storage_ms = 8,
          .storage_gain = gain,
          .storage_busy_ms = 8 / gain,
          .storage_busy_low_ms = 8 / gain,
          .storage_busy_high_ms = 8 / gain,
          .update_ms = 4,
          .update_cpu_ms = 0.5,
          .cores = 8};
}

}  // namespace penstock
