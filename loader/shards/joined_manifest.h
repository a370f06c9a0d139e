// The manifest of several data sets as one.
#pragma once

#include <filesystem>
#include <vector>

#include "loader/shards/manifest.h"

namespace penstock {

struct JoinedPart {
  const std::filesystem::path& folder;  // of its split
  const Manifest& manifest;
};

/// Counts are summed, and shards follow each other. Mean and deviation are those of all samples, of which each counts
/// as much as another, whatever its size. Requires 1 part or more. Throws config_error, which names both folders, for
/// other classes, other fields, or another number of channels.
Manifest join_manifests(const std::vector<JoinedPart>& parts);

}  // namespace penstock
