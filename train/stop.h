// Stopping by SIGINT and SIGTERM: between two steps, and at the same step on every rank.
#pragma once

#include <cstdint>
#include <memory>

#include "train/comm/comm.h"

namespace penstock {

/// While it lives, SIGINT and SIGTERM are remembered instead of ending the process. One at a time.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  static int received();  ///< SIGINT, SIGTERM or 0: the first that came.
};

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
  torch::Tensor votes_;  // i32: ranks with SIGINT, ranks with SIGTERM
  std::unique_ptr<Comm::Work> work_;
};

}  // namespace penstock
