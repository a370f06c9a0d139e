// Results: what the runs of a study give together, row by row, and how well they predict each other.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "loader/far/link_json.h"
#include "tools/train/study/plan.h"
#include "tools/train/study/predicted_step.h"

namespace penstock {

/// Median and range over the repeats of a row.
struct Spread {
  double median = 0, low = 0, high = 0;
};
Spread spread_of(std::vector<double> values);  ///< Requires at least one value.

struct RowResult {
  StudyRow row;
  Spread load_ms, update_ms;               ///< Per step: waiting for the loader, and the rest.
  Spread total_s;                          ///< The training, without start and evaluations.
  Spread images_per_second;                ///< Of all ranks.
  Spread communication_ms;                 ///< Per step, at rank 0.
  Spread bubble;                           ///< bubble_share() of all ranks; 0 without a pipeline.
  StepParts step;                          ///< What predictions of modes begin with.
  std::vector<int64_t> rank_memory_bytes;  ///< The peak of each rank's process in the last repeat; 0: of none.
  bool splits_batch_norm = false;          ///< BatchNorm saw other rows than with `single`.
  std::string equivalence;                 ///< Whether the mode trains what `single` trains; "" where nobody asked.
  std::optional<Spread> accuracy;          ///< 0..1; nothing without a test split.
  /// The total time that the first row of the group predicted for this row; for the first row, what the second row
  /// predicted. Nothing in a group of one row.
  std::optional<double> predicted_s;
  /// The range of the prediction, in seconds; both are equal if it gave none.
  double predicted_low_s = 0, predicted_high_s = 0;
  Spread storage_ms;       ///< Per step: the time that the loader's threads waited for the storage; part of loading.
  double other_cores = 0;  ///< The most cores that other programs had in a repeat; 0: less than a tenth.
  std::optional<LinkStats> link;  ///< What came over the network in the last repeat; nothing: no data were far away.
  std::string sentence;           ///< What limited the last repeat, as that run said it.
  std::filesystem::path folder;   ///< The folder of the last repeat.

  std::optional<double> error() const;  ///< predicted / measured - 1.
};

struct StudyResults {
  std::string command;
  std::string setting;  ///< Data, model, processor: what all rows share.
  bool is_emulated = false;
  std::optional<NetworkModel> net;  ///< That of --sim-net.
  int repeat_count = 1;
  std::vector<RowResult> rows;
};

/// Reads the summary.json of every run, in folders[row][repeat]. Throws io_error if one is missing, and corrupt_error
/// if it is not that of a finished training run.
StudyResults read_results(const StudyOptions& options, const std::vector<StudyRow>& rows,
                          const std::vector<std::vector<std::filesystem::path>>& folders);

/// The study in sentences: the fastest row of each group, and the errors of the predictions.
std::vector<std::string> findings(const StudyResults& results);

/// What limited the fastest row of each group, as its last repeat said it: "single, 2 workers: compute-bound: ...".
std::vector<std::string> limits(const StudyResults& results);

/// "other programs had up to 0.9 cores meanwhile", or "" where they had less than a tenth of one.
std::string others_text(const RowResult& row);

}  // namespace penstock
