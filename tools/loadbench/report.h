// The report of loadbench: a table for people, and JSON for programs.
#pragma once

#include <string>
#include <vector>

#include "loader/dataset.h"
#include "tools/loadbench/measure.h"
#include "tools/loadbench/options.h"

namespace penstock {

/// A line about the data and the machine, then one line for each number of workers.
std::string report_table(const Dataset& dataset, const BenchOptions& options, const std::vector<BenchRun>& runs);

/// Throws io_error if write_report() could not write to `path`, so that this shows before the measurement and not after
/// it.
void check_report_file(const std::string& path);

/// Writes options, machine, `runs` and `digests` to the file options.json: under another name first, which is then
/// renamed. Throws io_error.
void write_report(const Dataset& dataset, const BenchOptions& options, const std::vector<BenchRun>& runs,
                  const std::vector<std::string>& digests);

}  // namespace penstock
