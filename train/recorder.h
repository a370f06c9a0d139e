// Recorder: where the time of a step goes.
#pragma once

#include <array>
#include <cstdint>

#include "core/clock.h"

namespace penstock {

/// The phases of a step; together they are the step, without gaps or overlaps.
enum class Phase { kWait, kHostToDevice, kForward, kBackward, kCommunication, kOptimizer, kOther };
constexpr int kPhaseCount = 7;
constexpr std::array<const char*, kPhaseCount> kPhaseNames{"wait",          "host_to_device", "forward", "backward",
                                                           "communication", "optimizer",      "other"};

/// Attributes the time since the last mark to a phase, in one clock call (about 20 ns) a mark. Host time: on CUDA it is
/// the time of the launches until device events are read (one step late). Thread-safety: the training thread's alone.
class Recorder {
 public:
  /// Everything since the previous mark() belongs to `phase`.
  void mark(Phase phase) {
    const int64_t now = now_ns();
    total_ns_[static_cast<int>(phase)] += now - last_ns_;
    last_ns_ = now;
  }
  /// Starts a stretch of steps: what came before belongs to nothing.
  void restart() {
    total_ns_.fill(0);
    last_ns_ = now_ns();
  }
  double total_ms(Phase phase) const { return static_cast<double>(total_ns_[static_cast<int>(phase)]) * 1e-6; }

 private:
  std::array<int64_t, kPhaseCount> total_ns_{};
  int64_t last_ns_ = now_ns();
};

}  // namespace penstock
