// One rank's run: from a checked setup to trained weights.
#pragma once

#include "train/run/setup.h"

namespace penstock {

/// Trains or evaluates as one rank. Rank 0 prints and writes files. Returns the exit code: 0, or 128 + the signal that
/// stopped the run.
int run_rank(Setup& setup);

}  // namespace penstock
