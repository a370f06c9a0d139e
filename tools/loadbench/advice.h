// What limits the loader that was measured, and what to try next.
#pragma once

#include <string>
#include <vector>

#include "loader/dataset.h"
#include "tools/loadbench/measure.h"
#include "tools/loadbench/options.h"

namespace penstock {

/// Two lines, `limit: ...` and `next: ...`, from the fastest of `runs`. What is advised changes how the data are stored
/// or the loader is run; where it also changes pixels the line says so.
std::string advice(const Dataset& dataset, const BenchOptions& options, const std::vector<BenchRun>& runs);

}  // namespace penstock
