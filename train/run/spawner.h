// Spawner: the process of a run that starts its ranks, and starts them again after a machine has failed.
#pragma once

#include <string>
#include <vector>

#include "train/run/setup.h"

namespace penstock {

/// Starts the ranks of `setup`, which are this program with the same `arguments`, and waits for them. If a rank was
/// killed or lost, or a machine failed, it starts all of them again, --max-restarts times at most, with a line on
/// stderr each time; they go on from the last whole checkpoint, if this run has saved one. Returns the exit code.
int spawn(const Setup& setup, const TrainOptions& given, std::vector<std::string> arguments);

/// What --dry-run prints: the command line of every rank. `options` are those that were given.
std::string commands_text(const TrainOptions& options, const World& world, const std::vector<std::string>& arguments);

}  // namespace penstock
