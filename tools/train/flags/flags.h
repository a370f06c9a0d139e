// The command line of `train`.
//
// Lives here: what is typed: flags, files of flags, flags of an earlier run, lists.
// Not here: what the flags mean (train/options).
#pragma once

#include <string>
#include <vector>

#include "train/options/options.h"

namespace penstock {

/// Does not check ranges; check() does that. Throws config_error as parse_command_line() does.
TrainOptions parse_flags(int argc, char** argv);

/// What the flags in `words` alone are read into, such as those of a recipe. Throws as parse_flags().
TrainOptions options_of(const std::vector<std::string>& words);

/// Whether `words` have the flag, under any of its names: `--batch-size`, `-b`.
bool is_typed(const std::vector<std::string>& words, const std::string& flag);

/// The flags that parse_flags() knows: `--data`, `-b`, ...
std::vector<std::string> train_flag_names();

}  // namespace penstock
