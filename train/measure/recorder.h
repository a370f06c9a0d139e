// Recorder: times the phases of a step.
//
// Lives here: what took how long on the processor and on the device: phases of steps, collectives, traces, the use of
// the GPU; and what limits a run.
// Not here: where the figures are written (train/sinks), and what the end of a run says of them (train/run).
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/clock.h"
#include "train/measure/collective_times.h"
#include "train/measure/phase.h"

namespace c10 {
struct Device;
}

namespace penstock {

namespace detail {
class DeviceClock;
}

/// A mark adds the time since the previous mark to a phase, with one clock call (about 20 ns). On CUDA a mark is an
/// event in the stream that was current in use_device(). It is read after the device has passed it, about a step later,
/// so that nothing waits for the device; the time of a phase is then what the device spent on it or waited for it.
///
/// Thread-safety: for the training thread only.
class Recorder {
 public:
  Recorder();
  ~Recorder();
  /// From now on, if `device` is a CUDA device, phases have the times of that device.
  void use_device(const c10::Device& device);

  /// The time since the previous mark() belongs to `phase`.
  void mark(Phase phase) {
    if (device_clock_) return mark_device(phase);
    const int64_t now = now_ns();
    if (laps_) laps_->host.push_back({phase, 0, 0, last_ns_, now});
    const double elapsed_ms = ms_of(now - last_ns_);
    times_[phase] += elapsed_ms;
    if (phase == Phase::kCommunication) collectives_.add(step_, {.exposed = static_cast<float>(elapsed_ms)});
    last_ns_ = now;
  }
  /// The running step, counted from 0 since this was made.
  int64_t step() const { return step_; }
  /// A collective of step `step` was under way for so long.
  void add_collective(double milliseconds, bool is_after_backward, int64_t step) {
    times_.collectives += milliseconds;
    const auto all = static_cast<float>(milliseconds);
    collectives_.add(step, {.all = all, .after_backward = is_after_backward ? all : 0});
  }
  /// As CollectiveTimes::before(), without the newest step, whose collectives are read only in the step after it.
  std::vector<StepCollectives> collectives_of_steps() const { return collectives_.before(step_ - 1); }

  /// What this rank does from now on, where a Communication interrupts it. Costs a store to memory.
  void enter(Phase phase) { phase_ = phase; }
  /// As long as this lives, time belongs to Phase::kCommunication: the rank starts a collective or waits for one in the
  /// middle of the phase that it has entered. One within another changes nothing.
  class Communication {
   public:
    explicit Communication(Recorder& recorder)
        : recorder_(recorder), phase_(std::exchange(recorder.phase_, Phase::kCommunication)) {
      if (phase_ != Phase::kCommunication) recorder_.mark(phase_);
    }
    ~Communication() {
      try {
        if (phase_ != Phase::kCommunication) recorder_.mark(Phase::kCommunication);
      } catch (...) {  // the device has failed, and its next operation says so; from here it would end the process
      }
      recorder_.phase_ = phase_;
    }
    Communication(const Communication&) = delete;
    Communication& operator=(const Communication&) = delete;

   private:
    Recorder& recorder_;
    Phase phase_;
  };
  /// Starts a stretch of steps. The time since the last mark() belongs to no phase.
  void restart();
  /// This rank is about to send a message, or one has just arrived. Costs nothing unless laps are kept.
  void note_message(const std::string& what, bool is_sent, int from, int to, int tag) {
    if (laps_) laps_->messages.push_back({what, is_sent, from, to, tag, 0, now_ns()});
  }
  /// The times of this stretch so far. With `is_complete` it waits until the device has passed the last mark; otherwise
  /// it leaves out marks that the device has not passed yet.
  StepTimes times(bool is_complete = true);

  /// From now on until take_laps(), all laps are kept as well. On CUDA, each restart() meanwhile waits for the device.
  void keep_laps();
  /// All laps and messages since the last end_step() or restart() belong to step `step` (1 or more) of `epoch`. Laps
  /// between an end_step() and the next restart() belong to the step that has ended. Laps between two restart()s
  /// without an end_step() belong to no step and are left out.
  void end_step(int64_t step, int64_t epoch = 0) {
    ++step_;
    if (laps_) number_laps(step, epoch);
  }
  Laps take_laps();  ///< Requires keep_laps().

 private:
  void mark_device(Phase phase);
  void number_laps(int64_t step, int64_t epoch);
  void settle_laps();

  StepTimes times_;
  CollectiveTimes collectives_;
  int64_t step_ = 0;
  Phase phase_ = Phase::kCommunication;  // as enter() has it
  int64_t last_ns_ = now_ns();
  int64_t start_cpu_ns_ = 0, start_queued_ns_ = 0;
  double start_busy_ms_ = 0;
  std::unique_ptr<detail::DeviceClock> device_clock_;
  std::unique_ptr<Laps> laps_;  // null: they are not kept
};

}  // namespace penstock
