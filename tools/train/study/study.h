// study: `train study`, from its command line to its last file.
#pragma once

namespace penstock {

/// Runs what is planned and not yet finished, each run a `train` of its own, and writes study.md, study.csv, the charts
/// and report.html. Returns the exit code: of the run that failed, 130 or 143 after SIGINT or SIGTERM. Throws what is
/// wrong with options and files.
int run_study(int argc, char** argv);

}  // namespace penstock
