// Timeline: what the ranks of a pipeline do when, found by simulating their schedules.
#pragma once

#include <cstdint>
#include <vector>

#include "train/parallel/pipeline/rank_schedules.h"

namespace penstock::detail {

struct TimedOperation {
  Operation operation;
  int64_t begin = 0, end = 0;
};

struct Timeline {
  std::vector<std::vector<TimedOperation>> ranks;  // one entry per rank: its operations in order
  int64_t end = 0;                                 // of the last operation of all ranks

  /// The share of all ranks' time until `end` in which they wait.
  double bubble() const;
};

/// Runs each rank's list in its order; an operation begins when its rank is free and what it needs is there: a forward
/// needs that of the part before it, backward that of the part after it. Messages take no time. A forward takes 1, a
/// backward 2, and each of its halves 1; running a forward again takes 1 more, for which the rank waits for nobody
/// (Huang et al. 2019, sec. 2.3).
///
/// Throws bug_error if ranks wait for each other for ever, or if an operation comes before one of its own rank that it
/// needs.
Timeline simulate(const std::vector<Schedule>& ranks, const Placement& placement);

}  // namespace penstock::detail
