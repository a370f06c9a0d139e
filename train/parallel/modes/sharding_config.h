// What a mode chooses so that the ranks that hold the same parameters keep a shard each of what belongs to them
// (Rajbhandari et al. 2020, "ZeRO", sec. 5.1 to 5.3). They work over the data axis, whatever the pipe axis does.
#pragma once

#include "train/parallel/engine/step_config.h"

namespace penstock::detail {

/// Stage 1: the optimiser's state.
void shard_optimizer_state(StepConfig& config);

/// Stage 2: the gradients too.
void shard_gradients(StepConfig& config);

/// Stage 3: the parameters too.
void shard_parameters(StepConfig& config);

}  // namespace penstock::detail
