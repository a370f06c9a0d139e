// Stopping by SIGINT, SIGTERM and SIGHUP: between two steps, and at the same step on every rank.
#pragma once

#include <cstdint>
#include <memory>

#include "train/comm/comm.h"
#include "train/stop_signals.h"

namespace penstock {

/// Ranks get a signal at different moments. They vote: a sum over ranks is started behind every `interval`-th step and
/// read behind the `interval`-th after it, so that it travels under the steps between and every rank reads the same
/// sum.
class StopVote {
 public:
  /// interval: 1 step on the CPU; 16 on CUDA, where reading a number waits for the device.
  StopVote(Comm& comm, const torch::Device& device);
  ~StopVote();

  /// Collective, behind every step: the signal that some rank has received, the same on all ranks, or 0.
  int after_step(int64_t step);

 private:
  Comm& comm_;
  torch::Device device_;
  int64_t interval_;
  torch::Tensor votes_;  // i32, one entry per stop signal: ranks that received it
  std::unique_ptr<Comm::Work> work_;
};

}  // namespace penstock
