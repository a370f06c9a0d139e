// The plan of a study: rows, names and flags of its runs.
#include "tools/train/study/plan.h"

#include <cctype>
#include <cstdio>

#include "core/error.h"
#include "core/number_text.h"
#include "core/text.h"
#include "train/launch/command.h"
#include "train/run/program.h"

namespace penstock {
namespace {

constexpr int kTimelineSteps = 20;

/// `text` with each run of other characters than letters and digits replaced by one dash: "ddp, 2 ranks" becomes
/// "ddp-2-ranks".
std::string file_name(const std::string& text) {
  std::string name;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      name += c;
    else if (!name.empty() && name.back() != '-')
      name += '-';
  }
  return name;
}

}  // namespace

std::string group_text(const StudyRow& row) {
  return concat(row.mode, row.ranks > 1 ? concat(", ", row.ranks, " ranks") : "", row.ablation.empty() ? "" : ", ",
                row.ablation);
}

std::string row_text(const StudyRow& row) { return concat(group_text(row), ", ", count_text(row.workers, "worker")); }

std::vector<StudyRow> plan_rows(const StudyOptions& options, const std::function<void(const std::string&)>& log) {
  const bool has_augment = !options.train.augment.empty();
  std::vector<StudyRow> rows;
  std::vector<std::string> left_out;
  int group = 0;
  for (const auto& mode : options.modes) {
    for (const int ranks : options.ranks) {
      if ((usual_ranks(mode) == 1) != (ranks == 1)) {
        left_out.push_back(concat(mode, " with ", count_text(ranks, "rank")));
        continue;
      }
      for (const bool is_ablated : {false, true}) {
        if (is_ablated && !options.ablates_augment) continue;
        const char* ablation = !options.ablates_augment ? "" : is_ablated ? "not augmented" : "augmented";
        for (const int workers : options.workers)
          rows.push_back({mode, ranks, has_augment && !is_ablated, workers, group, ablation});
        ++group;
      }
    }
  }
  if (rows.empty()) {
    throw config_error(concat("--modes ", join(options.modes, ","), ": no mode can run with the ranks of --nproc; ",
                              "expected 1 for single, 2 or more for the others"));
  }
  if (!left_out.empty()) log(concat("left out, because there are no such runs: ", join(left_out)));
  return rows;
}

std::string run_name(const std::vector<StudyRow>& rows, size_t row, int repeat) {
  char number[32];
  std::snprintf(number, sizeof number, "%02zu-", row + 1);
  return concat(number, file_name(row_text(rows[row])), ".", repeat + 1);
}

std::vector<std::string> run_arguments(const StudyOptions& options, const StudyRow& row, int repeat,
                                       const std::filesystem::path& out) {
  auto words = row.is_augmented ? options.passed_on : without_flag(options.passed_on, "--augment");
  words.insert(words.end(), {"--mode", row.mode, "--nproc", std::to_string(row.ranks), "--workers",
                             std::to_string(row.workers), "--out", out.string()});
  if (repeat + 1 == options.repeat_count) words.insert(words.end(), {"--profile", std::to_string(kTimelineSteps)});
  return words;
}

}  // namespace penstock
