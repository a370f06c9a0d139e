// The command line of `train`.
#pragma once

#include <string>
#include <vector>

#include "train/options/options.h"

namespace penstock {

/// Does not check ranges; check() does that. Throws config_error as parse_command_line() does.
TrainOptions parse_flags(int argc, char** argv);

/// The flags that parse_flags() knows: `--data`, `-b`, ...
std::vector<std::string> train_flag_names();

}  // namespace penstock
