// The command line of `train study`.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "train/options.h"

namespace penstock {

struct StudyOptions {
  std::vector<int> workers;
  std::vector<std::string> modes{"single"};
  std::vector<int> ranks{1};
  bool ablates_augment = false;
  int repeat_count = 1;
  std::filesystem::path out;
  std::vector<std::string> passed_on;  ///< Flags of `train`, as typed.
  TrainOptions train;                  ///< What `passed_on` says.

  /// What the study is, without --out: two studies with equal arguments are the same one.
  std::vector<std::string> arguments() const;
  /// `train study --workers 0,1 ... --out DIR`, as a shell takes it.
  std::string command() const;
};

/// `argv[0]` is the word `study`. Throws config_error; flags that are passed on are checked as `train` checks them.
StudyOptions parse_study_options(int argc, char** argv);

/// `train study 'a(b)' ...`: the words as a shell takes them.
std::string command_text(const std::vector<std::string>& arguments);

}  // namespace penstock
