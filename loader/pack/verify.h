// verify(): whether a packed split is what its manifest says, to the last bit.
#pragma once

#include <filesystem>

#include "loader/shards/problems.h"

namespace penstock {

/// Checks the split in `split_folder`: its structure, file checksums, every CRC, that every sample decodes by every
/// path and every seek index is right, labels and counts against the manifest, that class names differ, and that the
/// split is the one in the folder's name. A flipped bit in a sample is reported with the name of that sample.
Problems verify(const std::filesystem::path& split_folder, int jobs = 0);

}  // namespace penstock
