// train plan-modes: how fast modes will be, and the command of the fastest.
//
// Lives here: `train plan-modes`: flags, measurements and table.
// Not here: the predictions themselves (train/parallel/plan).
#pragma once

namespace penstock {

/// Returns the exit code: 1 if no mode fits into --memory, or none has a prediction. Throws what is wrong with the
/// command line, the data and the files.
int run_plan_modes(int argc, char** argv);

}  // namespace penstock
