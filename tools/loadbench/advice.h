// advice(): what limits the loader that was measured, and what to try next.
#pragma once

#include <string>
#include <vector>

#include "loader/shards/dataset.h"
#include "tools/loadbench/measure.h"
#include "tools/loadbench/options.h"

namespace penstock {

/// Two lines, `limit: ...` and `next: ...`, about the fastest of `runs`. The first says if other programs used the
/// cores. The advice is to store the data or to run the loader in another way; if that also changes pixels, the line
/// says so.
std::string advice(const Dataset& dataset, const BenchOptions& options, const std::vector<BenchRun>& runs);

}  // namespace penstock
