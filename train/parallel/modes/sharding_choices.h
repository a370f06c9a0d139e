// Stages 1 and 2 of ZeRO as choices of a mode: ranks that hold the same parameters share what belongs to them, a slice
// each (Rajbhandari et al. 2020, "ZeRO", sec. 5.1 and 5.2). Works over the data axis, whatever the pipe axis does.
#pragma once

#include "train/parallel/engine/engine.h"

namespace penstock::detail {

/// Stage 1: each rank keeps a slice of the optimiser's state.
void slice_state(StepConfig& choices);

/// Stage 2: of the gradients too.
void slice_gradients(StepConfig& choices);

}  // namespace penstock::detail
