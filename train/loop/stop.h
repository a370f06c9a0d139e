// Stopping after SIGINT, SIGTERM or SIGHUP: between two steps or two batches of an evaluation, the same on every rank.
#pragma once

#include <cstdint>
#include <memory>

#include "train/comm/comm.h"
#include "train/launch/stop_signals.h"

namespace penstock {

/// Ranks get a signal at different moments, so they vote on it. At every `interval`-th question a sum over ranks is
/// started, and `interval` questions later it is read. It is computed while the steps between run, and every rank reads
/// the same sum.
class StopVote {
 public:
  /// Collective. The interval is 1 on the CPU, and 16 on CUDA, where reading a number waits for the device. Where ranks
  /// take `local_steps` alone it is also that, but no more than 16, so that their votes do not cost what the steps
  /// save.
  StopVote(Comm& comm, const torch::Device& device, int local_steps = 1);
  ~StopVote();

  /// Collective, to be called after every step and before every batch of an evaluation. Returns the signal that some
  /// rank has received, or 0; the same on all ranks.
  int ask();

 private:
  Comm& comm_;
  int64_t interval_, question_count_ = 0;
  // i32, one entry per stop signal: ranks that received it. Of allocate(), because each step has a vote: through
  // sockets it took about 50 wake-ups of each rank's Gloo, on the cores that compute.
  torch::Tensor votes_;
  std::unique_ptr<Comm::Work> work_;
};

}  // namespace penstock
