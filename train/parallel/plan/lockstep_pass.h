// Lockstep pass: forward and backward in which copies wait for each other block by block.
#pragma once

#include "train/parallel/plan/rank_tasks.h"
#include "train/parallel/plan/update_tasks.h"

namespace penstock::detail {

/// With sync-bn=true ranks gather the statistics of each BatchNorm layer, in forward and in backward, which hides
/// behind nothing. With zero(stage=3) the parameters of a unit are gathered while the unit before it computes, and its
/// gradients are scattered while the next one does (see ShardedParameters). Requires one micro-batch, no pipeline and a
/// step that is not emulated.
Gradients add_lockstep_pass(RankTasks& tasks);

}  // namespace penstock::detail
