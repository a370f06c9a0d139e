// train verify-modes: whether modes train what `single` trains, as a table.
//
// Lives here: `train verify-modes`: flags and table.
// Not here: the comparison itself (train/verify).
#pragma once

namespace penstock {

/// The words from "verify-modes" on. Returns the exit code: 1 if a pair differs. Throws as parse_command_line(), for
/// values that are not possible, and as verify().
int run_verify_modes(int argc, char** argv);

}  // namespace penstock
