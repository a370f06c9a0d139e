// The command line of `train study`.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "train/options/options.h"

namespace penstock {

struct StudyOptions {
  std::vector<int> workers;
  std::vector<std::string> modes{"single"};
  std::vector<int> ranks{1};
  bool ablates_augment = false;
  int repeat_count = 1;
  std::filesystem::path out = "study";
  std::vector<std::string> passed_on;  ///< The flags of `train`, as typed.
  TrainOptions train;                  ///< The options that `passed_on` gives.

  /// All arguments but --out. Two studies with equal arguments are the same study.
  std::vector<std::string> arguments() const;
  /// The command as one types it into a shell: `train study --workers 0,1 ... --out DIR`.
  std::string command() const;
};

/// `argv[0]` is the word `study`. Flags that are passed on are checked as `train` checks them. Throws config_error.
StudyOptions parse_study_options(int argc, char** argv);

/// `train study` and `arguments` as one types them into a shell: `train study 'a(b)' ...`.
std::string command_text(const std::vector<std::string>& arguments);

}  // namespace penstock
