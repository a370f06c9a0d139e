// Update tasks: how copies come from the gradients of their rows to the same new parameters.
#pragma once

#include <vector>

#include "train/parallel/plan/rank_tasks.h"

namespace penstock::detail {

/// What the end of a step waits for.
struct Gradients {
  GradientTasks pending = {};                      // those that no sum has yet
  std::vector<std::vector<size_t>> arriving = {};  // one entry per rank: sums that are on their way already
  bool meets = false;                              // after steps that ranks have taken alone
};

/// Sums over the copies bucket by bucket, in one or two rounds where they are compressed; the update; gathers of what
/// each rank has updated. Or the update of each rank alone, and where it `meets` the sum of what they have come to.
/// Returns the last task of each rank.
std::vector<size_t> add_update(RankTasks& tasks, const Gradients& gradients);

/// What a rank computes after the backward of a block, before its gradients can be sent.
Work packing_work(const StepCase& step, size_t block);

}  // namespace penstock::detail
