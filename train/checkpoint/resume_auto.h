// --resume auto: goes on from the last whole checkpoint in OUT, or starts.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "train/checkpoint/checkpoint.h"
#include "train/options/options.h"

namespace penstock {

/// Replaces the "auto" of options.resume by the path of the checkpoint that is returned, or by "" if the run starts.
/// `log` gets a line about files that are passed over, and one if the run starts. Throws config_error if OUT holds
/// checkpoints of a run on other data, and like last_whole_checkpoint().
std::optional<Checkpoint> resume_if_possible(TrainOptions& options, const std::function<void(const std::string&)>& log);

}  // namespace penstock
