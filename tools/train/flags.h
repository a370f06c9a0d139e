// The command line of `train`.
#pragma once

#include <string>
#include <vector>

#include "train/options.h"

namespace penstock {

/// Ranges are not checked yet: check() does that. Throws config_error as parse_command_line() does.
TrainOptions parse_flags(int argc, char** argv);

/// `--data`, `-b`, ...: what parse_flags() knows.
std::vector<std::string> train_flag_names();

}  // namespace penstock
