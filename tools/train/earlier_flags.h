// Earlier flags: what a run that is resumed or evaluated was started with.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace penstock {

/// The flags of options.json beside the checkpoint that `--resume` names (or in the folder that `--out` names, with
/// `--evaluate`) which say what is trained: data, model, order and optimisation. Put before the ones that were typed,
/// which win. None where there is no such file. Throws corrupt_error when it is no options.json.
std::vector<std::string> earlier_flags(const std::vector<std::string>& arguments);

/// The file that `--resume` means: of a run's folder its last checkpoint, otherwise `named` itself.
std::filesystem::path checkpoint_of(const std::filesystem::path& named);

}  // namespace penstock
