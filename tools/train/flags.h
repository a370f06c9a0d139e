// The command line of `train`.
#pragma once

#include "train/options.h"

namespace penstock {

/// Ranges are not checked yet: check() does that. Throws config_error as parse_command_line() does.
TrainOptions parse_flags(int argc, char** argv);

}  // namespace penstock
