// One rank's run: from a checked setup to trained weights.
//
// Lives here: one rank's run, from checked options to files: run.cpp tells it from top to bottom, the others are its
// chapters.
// Not here: anything that could be used without a run: it lies on the floors below.
#pragma once

#include "train/run/setup.h"

namespace penstock {

/// Trains or evaluates as one rank. Rank 0 prints and writes files. Returns the exit code: 0, or 128 + the signal that
/// stopped the run.
int run_rank(Setup& setup);

/// The same with ranks that `comm` joins already. What it throws does not reach the other ranks: call comm.abort().
int run_rank(Setup& setup, Comm& comm);

}  // namespace penstock
