// repeated_paths(): paths that name more than one sample.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <unordered_set>

#include "loader/shards/dataset.h"

namespace penstock::detail {

/// The paths that more than one sample has: those of files that a list named several times. Reads the path of every
/// sample. Throws io_error where they cannot be read.
std::unordered_set<std::string> repeated_paths(const Dataset& dataset);

/// `a/1.jpg` as `a/1-17.jpg`, for sample 17.
std::filesystem::path with_id(const std::filesystem::path& path, uint64_t id);

}  // namespace penstock::detail
