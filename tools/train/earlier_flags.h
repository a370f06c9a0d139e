// Earlier flags: the flags with which a run was started that is now resumed or evaluated.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace penstock {

/// Those flags of an earlier run that say what is trained: data, model, order and optimisation. They are in
/// options.json, in the folder of the checkpoint that `--resume` names, or with `--evaluate` in the folder that `--out`
/// names. They are read before the flags that were typed, which replace them. Empty if there is no such file. Throws
/// corrupt_error if the file does not hold the options of a run.
std::vector<std::string> earlier_flags(const std::vector<std::string>& arguments);

/// The value of the last `--name VALUE` or `--name=VALUE`; "" if there is none.
std::string typed_value(const std::vector<std::string>& arguments, const std::string& name);

/// The file that `--resume` means: the last checkpoint in `named` if that is a folder, otherwise `named` itself.
std::filesystem::path checkpoint_of(const std::filesystem::path& named);

}  // namespace penstock
