// One rank's run: from a checked setup to trained weights.
#pragma once

#include "train/run/setup.h"

namespace penstock {

/// Trains or evaluates as one rank; prints and writes on rank 0. The exit code: 0, or 128 + the signal that
/// stopped it.
int run_rank(Setup& setup);

}  // namespace penstock
