// Phase: what the training thread does in a step, and the times of steps by phase.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace penstock {

/// The phases of a step. Together they are the whole step, without gaps and overlaps. Communication is the time that a
/// rank waits for sums of all ranks; collectives that run during backward are counted apart. Bubble is the time that it
/// waits for the activation or the gradient of the rank before or after it in a pipeline.
enum class Phase { kWait, kHostToDevice, kForward, kBackward, kCommunication, kBubble, kOptimizer, kOther };
constexpr int kPhaseCount = 8;
constexpr std::array<const char*, kPhaseCount> kPhaseNames{"wait",          "host_to_device", "forward",   "backward",
                                                           "communication", "bubble",         "optimizer", "other"};

/// The times of some steps, in milliseconds.
struct StepTimes {
  std::array<double, kPhaseCount> phase{};
  double collectives = 0;  ///< Time in which a collective was running, whether a rank waited for it or not.
  double process_cpu = 0;  ///< Processor time of all threads of the process.
  double queued = 0;       ///< Time in which the training thread queued for a core.
  double busy_cores = 0;   ///< Processor time of all programs of the machine, on the cores that this one may use.

  double& operator[](Phase which) { return phase[static_cast<size_t>(which)]; }
  double operator[](Phase which) const { return phase[static_cast<size_t>(which)]; }
  /// The part of `collectives` during which the rank did something else.
  double hidden_communication() const { return std::max(0.0, collectives - (*this)[Phase::kCommunication]); }
  void add(const StepTimes& other, double factor = 1);
  double total() const;
};

/// The time between two marks, by the clock of now_ns().
struct Lap {
  Phase phase = Phase::kOther;
  int64_t step = 0, epoch = 0;  ///< As they were given to end_step().
  int64_t begin_ns = 0, end_ns = 0;
};

/// Where a message between two ranks of the run began or ended.
struct MessageEnd {
  std::string what;          ///< "the activation of micro-batch 3"
  bool is_sent = false;      ///< Otherwise it has arrived.
  int from = 0, to = 0;      ///< Ranks of the run.
  int tag = 0;               ///< With both ranks and the step it is that of no other message.
  int64_t step = 0, ns = 0;  ///< As of a Lap; the ends of one message have the same step.
};

/// The laps of some steps, in order. There are no gaps between the laps of one step.
struct Laps {
  std::vector<Lap> host;
  std::vector<MessageEnd> messages;  ///< In the same steps.
  std::vector<Lap> device;           ///< On CUDA: the same laps, with the times of the device.
};

}  // namespace penstock
