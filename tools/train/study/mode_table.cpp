// Mode table: speed-up over `single`, memory, waits and equivalence.
#include "tools/train/study/mode_table.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "core/error.h"
#include "core/number_text.h"
#include "core/text.h"
#include "train/verify/verify.h"

namespace penstock {
namespace {

constexpr int64_t kVerifiedSteps = 20;

std::string formatted(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string cell_seconds(double seconds) { return formatted(seconds < 10 ? "%.3f" : "%.1f", seconds); }

/// The row of each group that is the fastest; none if all have the same mode and number of ranks.
std::vector<const RowResult*> fastest_rows(const StudyResults& results) {
  std::vector<const RowResult*> fastest;
  const auto is_alike = [&](const RowResult& row) {
    return row.row.mode == results.rows.front().row.mode && row.row.ranks == results.rows.front().row.ranks;
  };
  if (std::all_of(results.rows.begin(), results.rows.end(), is_alike)) return fastest;
  for (const auto& row : results.rows) {
    if (fastest.empty() || fastest.back()->row.group != row.row.group)
      fastest.push_back(&row);
    else if (row.images_per_second.median > fastest.back()->images_per_second.median)
      fastest.back() = &row;
  }
  return fastest;
}

/// `single` with the same ablation; null if the study has none.
const RowResult* single_of(const std::vector<const RowResult*>& rows, const RowResult& row) {
  for (const auto* one : rows)
    if (one->row.mode == "single" && one->row.ablation == row.row.ablation) return one;
  return nullptr;
}

/// By the simulation of the mode; none for `single` itself, without it, and where there is no prediction. All rows make
/// as many steps, so that totals are to each other as steps are.
std::optional<double> predicted_total_s(const StudyResults& results, const RowResult* single, const RowResult& row) {
  if (single == nullptr || single == &row || single->step.total() <= 0) return std::nullopt;
  const auto step_ms = predicted_step_ms(row.row.mode, row.row.ranks, single->step, row.step, results.net);
  if (!step_ms) return std::nullopt;
  return single->total_s.median * *step_ms / single->step.total();
}

/// What stands in place of a prediction.
std::string prediction_missing(const RowResult* single, const RowResult& row) {
  return single == nullptr || single == &row ? "-" : "no prediction";
}

/// "512 MB, 498 MB".
std::string memory_text(const RowResult& row) {
  std::vector<std::string> texts;
  for (const int64_t bytes : row.rank_memory_bytes)
    if (bytes > 0) texts.push_back(byte_text(static_cast<uint64_t>(bytes)));
  return join(texts);
}

std::string share_of_step(const RowResult& row, const Spread& ms) {
  const double step_ms = row.load_ms.median + row.update_ms.median;
  return step_ms > 0 ? percent_text(ms.median / step_ms) : "-";
}

/// "same", "differs by 3.1e-02 (fp64)", for compression "within 0.5", or "one step" where ranks take steps alone. With
/// BatchNorm over other rows than those of a batch "same but for BatchNorm".
std::string equivalence_of(const StudyOptions& options, const StudyRow& row, bool splits_batch_norm) {
  VerifyOptions verified{.modes = {row.mode},
                         .archs = {"lenet"},
                         .ranks = {row.ranks},
                         .hostings = {Hosting::kThreads},
                         .batch_size = options.train.batch_size,
                         .step_count = kVerifiedSteps};
  const std::string exception = splits_batch_norm ? " but for BatchNorm" : "";
  std::string text, all = "one step";
  try {
    verify(matrix_of(verified).pairs, verified, [&](const Verdict& verdict) {
      if (verdict.pair.equivalence == Equivalence::kFp64) all = "same";
      if (!verdict.holds() && text.empty())
        text = verdict.failure.empty() ? concat("differs by ", formatted("%.1e", verdict.difference), " (",
                                                name_of(verdict.pair.equivalence), ")")
                                       : "fails";
      if (verdict.pair.equivalence == Equivalence::kCompressed && verdict.holds())
        text = concat("within ", formatted("%.2g", verdict.difference), exception);
    });
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kConfig) throw;
    return "-";  // the mode does not take LeNet
  }
  return text.empty() ? all + exception : text;
}

}  // namespace

void verify_modes(const StudyOptions& options, StudyResults& results) {
  if (fastest_rows(results).empty()) return;
  std::map<std::pair<std::string, int>, std::string> known;
  for (auto& row : results.rows) {
    const auto [found, is_new] = known.try_emplace({row.row.mode, row.row.ranks});
    if (is_new) found->second = equivalence_of(options, row.row, row.splits_batch_norm);
    row.equivalence = found->second;
  }
}

Table mode_table(const StudyResults& results) {
  const auto rows = fastest_rows(results);
  Table table{{"mode", "ranks", "augment", "workers", "images/s", "speed-up over single", "peak memory of every rank",
               "accuracy", "load wait", "exposed communication", "bubble", "trains as single", "total s", "simulated s",
               "simulation error", "times"},
              {}};
  for (const auto* row : rows) {
    const auto* single = single_of(rows, *row);
    const auto predicted = predicted_total_s(results, single, *row);
    const double gain = single == nullptr ? 0 : row->images_per_second.median / single->images_per_second.median;
    table.rows.push_back({{row->row.mode, ""},
                          {std::to_string(row->row.ranks), ""},
                          {row->row.is_augmented ? "on" : "off", ""},
                          {std::to_string(row->row.workers), ""},
                          {formatted("%.0f", row->images_per_second.median), ""},
                          {single == nullptr ? "-" : formatted("%.2fx", gain), ""},
                          {memory_text(*row), ""},
                          {row->accuracy ? percent_text(row->accuracy->median, 2) : "-", ""},
                          {share_of_step(*row, row->load_ms), ""},
                          {share_of_step(*row, row->communication_ms), ""},
                          {percent_text(row->bubble.median), ""},
                          {row->equivalence.empty() ? "-" : row->equivalence, ""},
                          {cell_seconds(row->total_s.median), ""},
                          {predicted ? cell_seconds(*predicted) : prediction_missing(single, *row), ""},
                          {predicted ? formatted("%+.0f %%", 100 * (*predicted / row->total_s.median - 1)) : "-", ""},
                          {results.is_emulated ? "emulated" : "measured", ""}});
  }
  return table;
}

std::vector<std::pair<std::string, double>> speed_ups(const StudyResults& results) {
  const auto rows = fastest_rows(results);
  std::vector<std::pair<std::string, double>> all;
  for (const auto* row : rows)
    if (const auto* single = single_of(rows, *row))
      all.emplace_back(group_text(row->row), row->images_per_second.median / single->images_per_second.median);
  return all;
}

std::vector<std::string> mode_table_notes() {
  std::vector<std::string> notes{
      concat("Each mode and number of ranks with the number of workers that was the fastest. Load wait and exposed "
             "communication are shares of the time of rank 0: for its loader, and for sums and messages that nothing "
             "hides. Bubble is the share of the time of all ranks, without what they wait for loaders, in which they "
             "wait for their neighbours in a pipeline. Ranks that are threads have the memory of one "
             "process."),
      concat("trains as single: what train verify-modes finds in ", kVerifiedSteps,
             " steps of LeNet without BatchNorm, with this batch size; \"-\" if the mode does not take LeNet, such as "
             "with a cut of another model. One step: ranks take steps alone (local-steps), so that only the gradient "
             "of the "
             "first step is that of single. Same but for BatchNorm: in the runs of this study BatchNorm normalises by "
             "the rows of one rank, replica or micro-batch, so that accuracies may differ. Otherwise one that differs "
             "by little differs by the order of sums.")};
  const auto more = prediction_notes();
  notes.insert(notes.end(), more.begin(), more.end());
  return notes;
}

}  // namespace penstock
