// The plan of a study: which runs there are, in which order.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tools/train/study/options.h"

namespace penstock {

/// A row of the table: all that differs between the runs of a study.
struct StudyRow {
  std::string mode;
  int ranks = 1;
  bool is_augmented = false;
  int workers = 0;
  int group = 0;         ///< Rows of one group differ in `workers` alone.
  std::string ablation;  ///< "augmented" or "not augmented" in a study that has both, otherwise "".
};

std::string group_text(const StudyRow& row);  ///< "single", "ddp, 2 ranks, augmented"
std::string row_text(const StudyRow& row);    ///< "ddp, 2 ranks, augmented, 1 worker"

/// Every mode x rank count x ablation x worker count that can be. `say` gets a line with those that cannot.
/// Throws config_error when none is left.
std::vector<StudyRow> plan_rows(const StudyOptions& options, const std::function<void(const std::string&)>& say);

/// The folder of a run below runs/: "03-ddp-2-ranks-augmented-1-worker.2", the last number being the repeat, from 1.
std::string run_name(const std::vector<StudyRow>& rows, size_t row, int repeat);

/// The flags of the run's `train`. In the last repeat (`repeat` is from 0) it profiles the steps of the timeline.
std::vector<std::string> run_arguments(const StudyOptions& options, const StudyRow& row, int repeat,
                                       const std::filesystem::path& out);

}  // namespace penstock
