// The training program behind its command line. No LibTorch in this header: the command line needs none.
#pragma once

#include <string>
#include <vector>

#include "train/options.h"

namespace penstock {

std::vector<std::string> arch_names();
std::vector<std::string> mode_names();

/// Packs where needed, starts ranks where needed (each of them this program with the same `arguments`), trains or
/// evaluates. Returns the exit code. Throws what is wrong with options, data, files and devices.
int run_program(const TrainOptions& options, const std::vector<std::string>& arguments);

}  // namespace penstock
