// check(): whether options can be those of a run, before any thread or rank starts.
#pragma once

#include <string>
#include <vector>

#include "train/options/options.h"

namespace penstock {

/// Checks the options: ranges, names of plug-ins, and pairs that exclude each other. Throws config_error that names the
/// flag:
/// `--workers is -3; expected 0 or more`.
void check(const TrainOptions& options, const std::vector<std::string>& archs, const std::vector<std::string>& modes,
           const std::vector<std::string>& optimizers);

}  // namespace penstock
