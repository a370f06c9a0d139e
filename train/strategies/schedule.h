// Schedules: in which order one rank of a pipeline runs forward and backward of its micro-batches.
#pragma once

#include <string>
#include <vector>

namespace penstock::detail {

struct Operation {
  enum class Kind { kForward, kBackward };
  Kind kind = Kind::kForward;
  int micro_batch = 0;
  bool operator==(const Operation&) const = default;
};

/// The operations of one rank in one step, in order.
using Schedule = std::vector<Operation>;

/// All forwards, then all backwards in reverse order (Huang et al. 2019, "GPipe", fig. 2c). Up to `micro_batches`
/// activations are alive at every stage.
///
///     4 micro-batches, 3 stages; the bubble is (P - 1) / (M + P - 1) of the time
///     stage 0  F0 F1 F2 F3 .  .  .  .  B3 B2 B1 B0
///     stage 1  .  F0 F1 F2 F3 .  .  B3 B2 B1 B0 .
///     stage 2  .  .  F0 F1 F2 F3 B3 B2 B1 B0 .  .
///
/// Every rank has the same list: what it waits for makes the shape.
Schedule gpipe(int micro_batches);

/// One forward, one backward (Narayanan et al. 2019, "PipeDream", sec. 3.2, in the synchronous form of Narayanan et al.
/// 2021, fig. 4 top). Stage s runs P - 1 - s forwards ahead and then takes turns, so that no more than P - s
/// activations are alive there; the bubble is that of gpipe.
///
///     4 micro-batches, 3 stages
///     stage 0  F0 F1 F2 .  .  B0 F3 B1 .  B2 .  B3
///     stage 1  .  F0 F1 .  B0 F2 B1 F3 B2 .  B3 .
///     stage 2  .  .  F0 B0 F1 B1 F2 B2 F3 B3 .  .
Schedule one_forward_one_backward(int stage, int stage_count, int micro_batches);

/// `gpipe` or `1f1b`. Throws config_error naming the mode's key for another name.
Schedule schedule_named(const std::string& name, int stage, int stage_count, int micro_batches);

/// The most micro-batches whose forward is done and whose backward is not.
int most_alive(const Schedule& schedule);

}  // namespace penstock::detail
