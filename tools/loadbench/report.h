// The report of loadbench: a table for people, and JSON for programs.
#pragma once

#include <string>
#include <vector>

#include "loader/shards/dataset.h"
#include "tools/loadbench/measure.h"
#include "tools/loadbench/options.h"

namespace penstock {

/// A line about the data and the machine, then one line for each number of workers.
std::string report_table(const Dataset& dataset, const BenchOptions& options, const std::vector<BenchRun>& runs);

/// Writes options, machine, `runs` and `digests` to the file options.json, with write_out_file(). Throws io_error.
void write_report(const Dataset& dataset, const BenchOptions& options, const std::vector<BenchRun>& runs,
                  const std::vector<std::string>& digests);

}  // namespace penstock
