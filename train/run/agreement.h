// Agreement: what must be equal at all ranks of a run, so that they train the same thing.
#pragma once

#include <filesystem>
#include <string>

#include "train/rendezvous/run_fingerprint.h"
#include "train/run/setup.h"

namespace penstock {

/// What ranks must agree on: the program, all flags that flag_table() marks as agreed, and the contents of the files
/// that flags name. A path may differ between machines; the data, weights and checkpoint at that path may not.
RunFingerprint fingerprint_of(const Setup& setup);

/// `weights with checksum 3f2a01bc`: of the tensors of a file and their names.
std::string identity_of_weights(const std::filesystem::path& path);

}  // namespace penstock
