// Mode flags: what other programs have as flags, and `train` as keys of a mode.
#pragma once

#include <string>
#include <vector>

namespace penstock {

/// Throws config_error for a word such as `--micro-batches` that is none of the flags in `known` but a key of a mode:
/// "it is a key of --mode, as in --mode 'pipeline(micro-batches=8)'".
void refuse_mode_flags(const std::vector<std::string>& words, const std::vector<std::string>& known);

}  // namespace penstock
