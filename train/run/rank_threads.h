// Ranks that are threads of this process (--hosting threads).
#pragma once

#include "train/run/setup.h"

namespace penstock {

/// Trains or evaluates as all ranks of `setup.world`, each on a thread of its own, and returns the exit code of rank 0.
/// Data and checkpoint are shared; every rank has a model of its own, with the same initial weights.
///
/// Errors: what the rank threw that failed first; the others then end, because their communication fails. A thread
/// cannot be killed: if one has not ended 5 s after that, the error goes to stderr and the process ends.
int run_rank_threads(Setup& setup);

}  // namespace penstock
