// The plan of a study: its runs and their order.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tools/train/study/options.h"

namespace penstock {

/// A row of the table: everything in which the runs of a study differ.
struct StudyRow {
  std::string mode;
  int ranks = 1;
  bool is_augmented = false;
  int workers = 0;
  int group = 0;         ///< The number of the row's group; rows of one group differ only in `workers`.
  std::string ablation;  ///< "augmented" or "not augmented" in a study that has both, otherwise "".
};

std::string group_text(const StudyRow& row);  ///< "single", "ddp, 2 ranks, augmented"
std::string row_text(const StudyRow& row);    ///< "ddp, 2 ranks, augmented, 1 worker"

/// Every possible combination of mode, rank count, ablation and worker count. `log` gets a line with the impossible
/// ones. Throws config_error if none is possible.
std::vector<StudyRow> plan_rows(const StudyOptions& options, const std::function<void(const std::string&)>& log);

/// The name of a run's folder in runs/: "03-ddp-2-ranks-augmented-1-worker.2". The last number is the repeat, from 1.
std::string run_name(const std::vector<StudyRow>& rows, size_t row, int repeat);

/// The flags with which `train` is started for a run. `repeat` counts from 0; the last repeat profiles the steps of the
/// timeline.
std::vector<std::string> run_arguments(const StudyOptions& options, const StudyRow& row, int repeat,
                                       const std::filesystem::path& out);

}  // namespace penstock
