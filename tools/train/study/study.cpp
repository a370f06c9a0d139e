// study: makes the runs one after the other, then the report.
#include "tools/train/study/study.h"

#include <cstdio>
#include <iostream>
#include <map>

#include "core/atomic_file.h"
#include "core/error.h"
#include "core/temporary.h"
#include "core/text.h"
#include "tools/train/study/folder.h"
#include "tools/train/study/mode_table.h"
#include "tools/train/study/page.h"
#include "tools/train/study/process.h"
#include "tools/train/study/table.h"
#include "train/launch/environment.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

/// The command of a run, with this program.
std::vector<std::string> command(const StudyOptions& options, const StudyRow& row, int repeat, const fs::path& out) {
  std::error_code failure;
  std::string program = fs::read_symlink("/proc/self/exe", failure).string();
  if (!fs::exists(program)) program = "/proc/self/exe";  // the program was replaced or removed since it started
  auto words = run_arguments(options, row, repeat, out);
  words.insert(words.begin(), program);
  return words;
}

int stopped(int signal) {
  std::cerr << "stopped; the same command continues the study" << std::endl;
  return 128 + signal;
}

/// Prints the row's name and the last line that its run wrote to stderr.
int failed(const StudyRow& row, const fs::path& errors, int exit_code) {
  std::string said = last_line(errors);
  if (said.starts_with("train: ")) said.erase(0, 7);
  if (said.empty()) said = concat("exit code ", exit_code, " without a message");
  std::cerr << "train: study: " << row_text(row) << ": " << said << std::endl;
  return exit_code;
}

/// Starts the row of each group that has the most workers with --check, so that a row that cannot run is refused now
/// and not hours later. Groups that are finished are left out.
int check_rows(const StudyOptions& options, const std::vector<StudyRow>& rows) {
  std::map<int, size_t> chosen;  // by group
  for (size_t row = 0; row < rows.size(); ++row) {
    const auto [group, is_new] = chosen.try_emplace(rows[row].group, row);
    if (!is_new && rows[row].workers > rows[group->second].workers) group->second = row;
  }
  const ScratchFolder folder("penstock-study");
  const fs::path errors = folder.path() / "errors";
  for (const auto& [group, row] : chosen) {
    if (StudyFolder::is_finished(options.out, run_name(rows, row, options.repeat_count - 1))) continue;
    auto words = command(options, rows[row], 0, folder.path() / "run");
    words.push_back("--check");
    const auto end = run_process(words, folder.path() / "output", errors);
    if (end.stop_signal != 0) return stopped(end.stop_signal);
    if (end.exit_code != 0) return failed(rows[row], errors, end.exit_code);
  }
  return 0;
}

class Study {
 public:
  Study(const StudyOptions& options, std::vector<StudyRow> rows)
      : options_(options), rows_(std::move(rows)), folder_(options) {}

  /// Makes repeat 1 of all rows, then repeat 2, and so on: a change on the machine meanwhile then affects all rows.
  int run_all() {
    for (int repeat = 0; repeat < options_.repeat_count; ++repeat)
      for (size_t row = 0; row < rows_.size(); ++row)
        if (const int code = run_one(row, repeat); code != 0) return code;
    return 0;
  }

  void report() const {
    std::vector<std::vector<fs::path>> folders(rows_.size());
    for (size_t row = 0; row < rows_.size(); ++row)
      for (int repeat = 0; repeat < options_.repeat_count; ++repeat)
        folders[row].push_back(folder_.run(run_name(rows_, row, repeat)));
    auto results = read_results(options_, rows_, folders);
    verify_modes(options_, results);
    write_text(options_.out / "study.md", markdown(results));
    write_text(options_.out / "study.csv", csv(results));
    write_text(options_.out / "report.html", page(results));
    std::cout << markdown_table(table_of(results));
    if (const Table modes = mode_table(results); !modes.rows.empty()) std::cout << '\n' << markdown_table(modes);
    for (const auto& line : findings(results)) std::cout << line << '\n';
    for (const auto& line : limits(results)) std::cout << line << '\n';
    std::cout << "written: " << (options_.out / "report.html").string() << ", study.md, study.csv" << std::endl;
  }

 private:
  int run_one(size_t row, int repeat) {
    const std::string name = run_name(rows_, row, repeat), title = row_text(rows_[row]);
    const auto number = static_cast<size_t>(repeat) * rows_.size() + row + 1;
    const std::string line = concat("study: run ", number, " of ", rows_.size() * options_.repeat_count, ", ", title,
                                    options_.repeat_count > 1 ? concat(", repeat ", repeat + 1) : "", ": ");
    if (StudyFolder::is_finished(options_.out, name)) {
      std::cerr << line << "finished earlier" << std::endl;
      return 0;
    }
    std::cerr << line << std::flush;
    const fs::path errors = folder_.run(name + ".err");
    auto words = command(options_, rows_[row], repeat, folder_.run(name));
    words.emplace_back("--force");  // a run that was cut short is made anew
    const auto end = run_process(words, folder_.run(name + ".log"), errors);
    if (end.stop_signal != 0) return stopped(end.stop_signal);
    if (end.exit_code != 0) {
      std::cerr << "exit code " << end.exit_code << '\n';
      return failed(rows_[row], errors, end.exit_code);
    }
    if (fs::is_empty(errors)) fs::remove(errors);
    const auto result = read_results(options_, {rows_[row]}, {{folder_.run(name)}}).rows.front();
    char seconds[64];
    std::snprintf(seconds, sizeof seconds, "total %.2f s%s", result.total_s.median,
                  options_.train.emulation.is_on() ? " [emulated]" : "");
    std::cerr << seconds << std::endl;
    return 0;
  }

  const StudyOptions& options_;
  std::vector<StudyRow> rows_;
  StudyFolder folder_;
};

}  // namespace

int run_study(int argc, char** argv) {
  const StudyOptions options = parse_study_options(argc, argv);
  if (const auto launched = rank_from_environment(""))
    throw config_error(concat("study: started by ", launched->launcher, "; expected to be started by hand, once"));
  const auto rows = plan_rows(options, [](const std::string& line) { std::cerr << "study: " << line << std::endl; });
  if (const int code = check_rows(options, rows); code != 0) return code;
  Study study(options, rows);
  if (const int code = study.run_all(); code != 0) return code;
  study.report();
  return 0;
}

}  // namespace penstock
