// The command line of `train plan-modes`.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "train/options/options.h"

namespace penstock {

struct PlanOptions {
  std::vector<std::string> modes;
  std::vector<int> ranks;
  std::optional<double> memory_bytes;           ///< Of each rank; none: any number fits.
  std::filesystem::path machine, save_machine;  ///< Measured costs to read and to write; empty: neither.
  std::filesystem::path json;                   ///< Where the predictions go as JSON; empty: nowhere.
  std::filesystem::path measured;               ///< In a rank that measures: where rank 0 writes; otherwise empty.
  std::vector<std::string> passed_on;           ///< The flags of `train`, as typed.
  TrainOptions train;                           ///< The options that `passed_on` gives.
};

/// `argv[0]` is the word `plan-modes`. Flags of `train` are checked as `train` checks them. Throws config_error.
PlanOptions parse_plan_options(int argc, char** argv);

/// The bytes of "16GB", "900MB" or "1.5TB", powers of 1000. Throws config_error that names the flag for anything else.
double parse_memory(const std::string& flag, const std::string& text);

}  // namespace penstock
