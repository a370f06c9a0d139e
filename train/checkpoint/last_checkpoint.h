// The last whole checkpoint of a run, from which --resume auto goes on.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "train/checkpoint/checkpoint.h"

namespace penstock {

struct FoundCheckpoint {
  std::filesystem::path path;
  Checkpoint checkpoint;
};

/// The checkpoint of the latest step in OUT, checkpoint-best.safetensors included; none if there is no checkpoint.
/// Files that are not whole are passed over, and `log` gets a line about each of them. Throws io_error if a file cannot
/// be read, and corrupt_error if there are checkpoints and none of them is whole: to start anew would remove them.
std::optional<FoundCheckpoint> last_whole_checkpoint(const std::filesystem::path& out,
                                                     const std::function<void(const std::string&)>& log);

}  // namespace penstock
