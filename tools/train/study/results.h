// Results: what the runs of a study say together, row by row, and how well they predict each other.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tools/train/study/plan.h"

namespace penstock {

/// Of a row's repeats.
struct Spread {
  double median = 0, low = 0, high = 0;
};
Spread spread_of(std::vector<double> values);  ///< Requires one value.

struct RowResult {
  StudyRow row;
  Spread load_ms, update_ms;       ///< A step: waiting for the loader, and the rest.
  Spread total_s;                  ///< Training, without start and evaluation.
  std::optional<Spread> accuracy;  ///< 0..1; nothing when there is no test split.
  /// What another row of the group says `total_s` would be: its first one, for the first one the second. Nothing in a
  /// group of one.
  std::optional<double> predicted_s;
  /// The range that the prediction stood for, seconds; equal where it gave none.
  double predicted_low_s = 0, predicted_high_s = 0;
  Spread storage_ms;             ///< Per step: waiting of the loader's threads for the storage; part of loading.
  double other_cores = 0;        ///< The most that other programs had during a repeat; 0: less than a tenth of one.
  std::string sentence;          ///< What limited the last repeat, in that run's words.
  std::filesystem::path folder;  ///< Of the last repeat.

  std::optional<double> error() const;  ///< predicted / measured - 1.
};

struct StudyResults {
  std::string command;
  std::string setting;  ///< Data, model, processor: what all rows share.
  bool is_emulated = false;
  int repeat_count = 1;
  std::vector<RowResult> rows;
};

/// Reads the summary.json of every run; folders[row][repeat]. Throws io_error and corrupt_error for one that is missing
/// or not of a finished training run.
StudyResults read_results(const StudyOptions& options, const std::vector<StudyRow>& rows,
                          const std::vector<std::vector<std::filesystem::path>>& folders);

/// The study in sentences: the fastest row of each group, and the errors of the predictions.
std::vector<std::string> findings(const StudyResults& results);

/// "other programs had up to 0.9 cores meanwhile", or "" where they had less than a tenth of one.
std::string others_text(const RowResult& row);

}  // namespace penstock
