// What a mode chooses so that the ranks that hold the same parameters keep a slice each of what belongs to them
// (Rajbhandari et al. 2020, "ZeRO", sec. 5.1 and 5.2). They work over the data axis, whatever the pipe axis does.
#pragma once

#include "train/parallel/engine/engine.h"

namespace penstock::detail {

/// Stage 1: the optimiser's state.
void slice_state(StepConfig& choices);

/// Stage 2: the gradients too.
void slice_gradients(StepConfig& choices);

}  // namespace penstock::detail
