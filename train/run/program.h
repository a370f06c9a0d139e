// The training program without its command line. This header includes no LibTorch, because the command line needs none.
#pragma once

#include <string>
#include <vector>

#include "train/options/options.h"

namespace penstock {

std::vector<std::string> arch_names();
std::vector<std::string> mode_names();
std::vector<std::string> modes_with(const std::string& key);  ///< Those that take it: `micro-batches`.
/// One line per mode for a help text: its name, what it does, its keys.
std::string mode_lines();
std::vector<std::string> optimizer_names();
/// The same for optimisers, with the default that each has for --lr.
std::string optimizer_lines();
std::string loss_lines();  ///< The same for losses.
/// How many ranks a mode, such as `ddp` or `pipeline(data=2)`, takes where nobody says. Throws config_error.
int usual_ranks(const std::string& mode);

/// Packs the data and starts ranks if needed (each rank is this program with the same `arguments`), and trains or
/// evaluates. Returns the exit code. Throws what is wrong with options, data, files and devices.
int run_program(const TrainOptions& options, const std::vector<std::string>& arguments);

}  // namespace penstock
