// Recorder: where the time of a step goes.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

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
  double busy_cores = 0;   ///< Processor time of all programs of the machine, on the cores that this one may use.

  double& operator[](Phase which) { return phase[static_cast<size_t>(which)]; }
  double operator[](Phase which) const { return phase[static_cast<size_t>(which)]; }
  /// Of `collectives`, what ran beside something else.
  double hidden_communication() const { return std::max(0.0, collectives - (*this)[Phase::kCommunication]); }
  void add(const StepTimes& other, double factor = 1);
  double total() const;
};

/// What lies between two marks, by now_ns()'s clock.
struct Lap {
  Phase phase = Phase::kOther;
  int64_t step = 0, epoch = 0;  ///< As given to end_step().
  int64_t begin_ns = 0, end_ns = 0;
};

/// The laps of some steps, in order. Those of one step have no gaps.
struct Laps {
  std::vector<Lap> host;
  std::vector<Lap> device;  ///< On CUDA: the same laps as the device went through them.
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
    if (laps_) laps_->host.push_back({phase, 0, 0, last_ns_, now});
    times_[phase] += static_cast<double>(now - last_ns_) * 1e-6;
    last_ns_ = now;
  }
  void add_collectives(double milliseconds) { times_.collectives += milliseconds; }
  /// Starts a stretch of steps: what came before belongs to nothing.
  void restart();
  /// Of this stretch so far. With `is_complete` it waits for the device's last mark; otherwise marks that the device
  /// has not reached are left out.
  StepTimes times(bool is_complete = true);

  /// From here to take_laps() every lap is kept too. On CUDA a restart() meanwhile waits for the device.
  void keep_laps();
  /// What was marked since the last end_step() or restart() is of `step`, 1 or more, and of `epoch`. What is marked
  /// between an end_step() and a restart() is of that step too; between two restart()s without an end_step() it is of
  /// none, and left out.
  void end_step(int64_t step, int64_t epoch = 0) {
    if (laps_) number_laps(step, epoch);
  }
  Laps take_laps();

 private:
  void mark_device(Phase phase);
  void number_laps(int64_t step, int64_t epoch);
  void settle_laps();

  StepTimes times_;
  int64_t last_ns_ = now_ns();
  int64_t start_cpu_ns_ = 0, start_queued_ns_ = 0;
  double start_busy_ms_ = 0;
  std::unique_ptr<detail::DeviceClock> device_clock_;
  std::unique_ptr<Laps> laps_;  // none: they are not kept
};

}  // namespace penstock
