// Ranks that are threads of one process: a Comm without a network.
#pragma once

#include <memory>
#include <vector>

#include "train/comm/comm.h"

namespace penstock {

/// One end for each of `count` ranks, for a thread of its own each. Sums are those of pairwise_sum(), so
/// that they do not depend on timing. A message is a copy: send() never waits.
///
/// Errors: device_error `rank 1: threads: waiting for <what> from rank 0: ...` when a rank has ended, or has not come
/// within `meeting_seconds`, and from its first step on `step_seconds`. Requires tensors on the CPU, or all on one GPU
/// and in its default stream: what one rank has started there before it posts a tensor then runs before what another
/// rank starts afterwards. There nothing may be waited for in a hook of backward, which is a device_error at once:
/// ranks would wait for each other.
std::vector<std::unique_ptr<Comm>> make_thread_comms(int count, int step_seconds = 120, int meeting_seconds = 600);

}  // namespace penstock
