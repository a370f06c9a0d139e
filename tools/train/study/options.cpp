// The command line of `train study`: its own flags, and the flags of `train` that it passes on.
#include "tools/train/study/options.h"

#include <algorithm>
#include <set>

#include "core/error.h"
#include "core/text.h"
#include "tools/cli.h"
#include "tools/train/flags/config_flags.h"
#include "tools/train/flags/flags.h"
#include "tools/train/flags/lists.h"
#include "train/launch/command.h"
#include "train/options/check.h"
#include "train/run/program.h"

namespace penstock {
namespace {

/// "1,2": each number of ranks that one of the modes usually takes.
std::string usual_ranks_of(const std::vector<std::string>& modes) {
  std::set<int> counts;
  for (const auto& mode : modes) counts.insert(usual_ranks(mode));
  std::vector<std::string> texts;
  for (const int count : counts) texts.push_back(std::to_string(count));
  return join(texts, ",");
}

/// Refuses flags that a study sets itself or cannot use.
void check_passed_on(const TrainOptions& train) {
  const TrainOptions unset;
  const auto refuse = [](const std::string& flag, const char* expected) {
    throw config_error(concat(flag, ": cannot be given to a study; expected ", expected));
  };
  if (train.mode.text() != unset.mode.text()) refuse(concat("--mode ", train.mode), "--modes");
  if (train.only_evaluates) refuse("--evaluate", "no --evaluate: a study trains");
  if (train.prints_schedule) refuse("--print-schedule", "no --print-schedule: a study trains");
  if (train.prints_config) refuse("--print-config", "no --print-config: a study trains");
  if (!train.resume.empty()) refuse(concat("--resume ", train.resume.string()), "--pretrained, or no weights");
  if (train.profile_steps > 0)
    refuse(concat("--profile ", train.profile_steps),
           "no --profile: a study profiles the last repeat of each row itself");
  if (train.replaces_run) refuse("--force", "no --force: a study replaces runs of its own that were cut short");
  if (train.only_checks) refuse("--check", "no --check: a study checks all rows itself before the first run");
  if (train.only_prints_commands) refuse("--dry-run", "no --dry-run: a study trains");
  if (!train.hostfile.empty()) refuse(concat("--hostfile ", train.hostfile.string()), "--nproc");
  if (train.rank >= 0) refuse(concat("--rank ", train.rank), "--nproc: a study starts all ranks itself");
  if (train.world_size > 0) refuse(concat("--world-size ", train.world_size), "--nproc");
}

/// Suggestions for a misspelt flag come from the flags of the study and of `train`. Flags of one letter are left to
/// parse_flags().
void check_known(const std::vector<std::string>& passed_on, std::vector<std::string> known) {
  const auto of_train = train_flag_names();
  known.insert(known.end(), of_train.begin(), of_train.end());
  for (const auto& word : passed_on) {
    const std::string name = word.substr(0, word.find('='));
    if (name.starts_with("--") && std::find(known.begin(), known.end(), name) == known.end())
      throw config_error(unknown_name("flag", name, known));
  }
}

TrainOptions parse_passed_on(const std::vector<std::string>& passed_on) {
  std::vector<std::string> words{"train"};
  words.insert(words.end(), passed_on.begin(), passed_on.end());
  std::vector<char*> pointers;
  for (auto& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  TrainOptions train = parse_flags(static_cast<int>(words.size()), pointers.data());
  check(train, arch_names(), mode_names(), optimizer_names());
  check_passed_on(train);
  return train;
}

/// Flags that the study sets for each of its runs, whatever a file of flags says of them.
const std::set<std::string> kOfEachRun{"mode", "nproc", "workers"};

/// `passed_on` with the flags of a --config in its place.
std::vector<std::string> with_config_of_runs(const std::vector<std::string>& passed_on) {
  std::vector<std::string> words{"train"};
  words.insert(words.end(), passed_on.begin(), passed_on.end());
  words = with_config(words, kOfEachRun);
  return {words.begin() + 1, words.end()};
}

std::string join_counts(const std::vector<int>& counts) {
  std::vector<std::string> words;
  for (const int count : counts) words.push_back(std::to_string(count));
  return join(words, ",");
}

}  // namespace

std::string command_text(const std::vector<std::string>& arguments) {
  std::string text = "train study";
  for (const auto& word : arguments) text += " " + shell_quoted(word);
  return text;
}

std::vector<std::string> StudyOptions::arguments() const {
  std::vector<std::string> words{"--workers", join_counts(workers), "--modes", join(modes, ","),
                                 "--nproc",   join_counts(ranks)};
  if (ablates_augment) words.insert(words.end(), {"--ablate", "augment"});
  words.insert(words.end(), {"--repeat", std::to_string(repeat_count)});
  words.insert(words.end(), passed_on.begin(), passed_on.end());
  return words;
}

std::string StudyOptions::command() const {
  auto words = arguments();
  words.insert(words.end(), {"--out", out.string()});
  return command_text(words);
}

StudyOptions parse_study_options(int argc, char** argv) {
  StudyOptions options;
  std::string workers = "1", modes = "single", ranks, ablate;
  CLI::App app(
      "Trains once for each combination of mode, number of ranks and number of workers, and writes a table, charts and "
      "a page: what limits each run, and how well the first row of each group predicts the others. All other flags of "
      "`train` may be given too; they apply to all runs. The same command continues a study that was stopped.",
      "train study");
  app.get_formatter()->column_width(34);
  app.allow_extras();
  app.add_option("-j,--workers", workers,
                 "numbers of workers per rank, for example 0,1,2,4; the others are predicted from the first one")
      ->capture_default_str();
  app.add_option("--out", options.out, "folder for study.md, study.csv, report.html and runs/")->capture_default_str();
  app.add_option("--modes", modes, concat("modes to compare, separated by commas: ", join(mode_names())))
      ->capture_default_str();
  app.add_option(
      "--nproc", ranks,
      "numbers of ranks, for example 1,2: mode single runs with 1, other modes with 2 or more (default: 1 for single, "
      "2 for other modes)");
  app.add_option("--ablate", ablate, "augment: repeat each row without --augment");
  app.add_option("--repeat", options.repeat_count, "runs per row; the table shows their medians")
      ->capture_default_str();
  parse_command_line(app, argc, argv);

  options.passed_on = app.remaining();
  check_known(options.passed_on, flag_names(app));
  options.passed_on = with_config_of_runs(options.passed_on);
  options.workers = parse_counts("--workers", workers, 0, "0,1,2,4");
  options.modes = parse_modes(modes);
  if (app.count("--nproc") == 0) ranks = usual_ranks_of(options.modes);
  options.ranks = parse_counts("--nproc", ranks, 1, "1,2");
  if (options.repeat_count < 1)
    throw config_error(concat("--repeat is ", options.repeat_count, "; expected 1 or more"));
  if (app.count("--ablate") > 0 && ablate != "augment")
    throw config_error(concat("--ablate: ", unknown_name("ablation", ablate, {"augment"})));
  options.ablates_augment = !ablate.empty();
  if (options.out.empty()) throw config_error("--out is \"\"; expected the study's folder");
  options.train = parse_passed_on(options.passed_on);
  if (options.ablates_augment && options.train.augment.empty())
    throw config_error("--ablate augment: --augment is \"\"; expected the transforms that half of the rows leave out");
  return options;
}

}  // namespace penstock
