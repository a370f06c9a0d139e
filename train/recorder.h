// Recorder: where the time of a step goes.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>

#include "core/clock.h"

namespace c10 {
struct Device;
}

namespace penstock {

/// The phases of a step; together they are the step, without gaps or overlaps. Communication is what a rank waits for
/// the others; what runs under backward is counted apart.
enum class Phase { kWait, kHostToDevice, kForward, kBackward, kCommunication, kOptimizer, kOther };
constexpr int kPhaseCount = 7;
constexpr std::array<const char*, kPhaseCount> kPhaseNames{"wait",          "host_to_device", "forward", "backward",
                                                           "communication", "optimizer",      "other"};

/// What steps took, in milliseconds.
struct StepTimes {
  std::array<double, kPhaseCount> phase{};
  double collectives = 0;  ///< In which a collective was under way, waited for or not.
  double process_cpu = 0;  ///< Processor time of all threads of the process.
  double queued = 0;       ///< The training thread could run and had no core.

  double& operator[](Phase which) { return phase[static_cast<size_t>(which)]; }
  double operator[](Phase which) const { return phase[static_cast<size_t>(which)]; }
  /// Of `collectives`, what ran beside something else.
  double hidden_communication() const { return std::max(0.0, collectives - (*this)[Phase::kCommunication]); }
  void add(const StepTimes& other, double factor = 1);
  double total() const;
};

namespace detail {
class DeviceClock;
}

/// Attributes the time since the last mark to a phase, in one clock call (about 20 ns) a mark. On CUDA a mark is an
/// event in the stream that was current in use_device(), which is read when the device has passed it, a step later:
/// nothing waits for the device on purpose, and a phase is what the device spent on it or waited for it.
///
/// Thread-safety: the training thread's alone.
class Recorder {
 public:
  Recorder();
  ~Recorder();
  /// On CUDA the phases are the device's from now on.
  void use_device(const c10::Device& device);

  /// Everything since the previous mark() belongs to `phase`.
  void mark(Phase phase) {
    if (device_clock_) return mark_device(phase);
    const int64_t now = now_ns();
    times_[phase] += static_cast<double>(now - last_ns_) * 1e-6;
    last_ns_ = now;
  }
  void add_collectives(double milliseconds) { times_.collectives += milliseconds; }
  /// Starts a stretch of steps: what came before belongs to nothing.
  void restart();
  /// Of this stretch so far. With `is_complete` it waits for the device's last mark; otherwise marks that the device
  /// has not reached are left out.
  StepTimes times(bool is_complete = true);

 private:
  void mark_device(Phase phase);

  StepTimes times_;
  int64_t last_ns_ = now_ns();
  int64_t start_cpu_ns_ = 0, start_queued_ns_ = 0;
  std::unique_ptr<detail::DeviceClock> device_clock_;
};

}  // namespace penstock
