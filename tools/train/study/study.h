// study: `train study`, from the command line to the last file.
//
// Lives here: `train study`: runs, their results, the table, the charts and the page.
// Not here: the runs themselves, which are child processes.
#pragma once

namespace penstock {

/// Makes all runs that are not finished yet, each as a `train` process of its own, and writes study.md, study.csv
/// and report.html. Returns the exit code: 0, that of the run that failed, or 128 + the signal that stopped the
/// study. Throws what is wrong with options and files.
int run_study(int argc, char** argv);

}  // namespace penstock
