// What loadbench says: a table for people, JSON for programs.
#pragma once

#include <string>
#include <vector>

#include "loader/dataset.h"
#include "tools/loadbench/measure.h"
#include "tools/loadbench/options.h"

namespace penstock {

/// A line on the data and the machine, then a line for each worker count.
std::string report_table(const Dataset& dataset, const BenchOptions& options, const std::vector<BenchRun>& runs);

/// Throws io_error when write_report() could not write to `path`: before measuring, not after.
void check_report_file(const std::string& path);

/// Writes options, machine, `runs` and `digests` to options.json, aside first and renamed then. Throws io_error.
void write_report(const Dataset& dataset, const BenchOptions& options, const std::vector<BenchRun>& runs,
                  const std::vector<std::string>& digests);

}  // namespace penstock
