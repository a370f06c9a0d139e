// Earlier flags: the flags with which a run was started that is now resumed or evaluated.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace penstock {

inline constexpr const char* kResumeHelp =
    "continue from this checkpoint, or from the last one in this folder of a run, with the same data, model, order and "
    "optimisation; flags that are given replace those of the earlier run. Not taken over: --mode and the other flags "
    "of devices and ranks, --threads, --workers, --prefetch, --decode, --cache, --resident, --graph, --save-every, "
    "--keep, --eval-at-end, --print-freq, --profile and emulations. The data must be those of that run. auto: continue "
    "from the last whole checkpoint in OUT, or start if there is none; no flags are taken over";

/// Those flags of an earlier run that say what is trained: data, model, order and optimisation. They are in
/// options.json, in the folder of the checkpoint that `--resume` names, or with `--evaluate` in the folder that `--out`
/// names. They are read before the flags that were typed, which replace them. Empty if there is no such file, but
/// config_error if `--resume` names a folder. Throws like read_options().
std::vector<std::string> earlier_flags(const std::vector<std::string>& arguments);

/// The value of the last `--name VALUE` or `--name=VALUE`; "" if there is none.
std::string typed_value(const std::vector<std::string>& arguments, const std::string& name);

/// The file that `--resume` means: the last checkpoint in `named` if that is a folder, otherwise `named` itself.
std::filesystem::path checkpoint_of(const std::filesystem::path& named);

}  // namespace penstock
