// repeated_paths(): paths that name more than one sample, and names that no file can have.
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

/// Whether file systems take `path`: names of up to 255 bytes and 4,000 in all, which leaves room for temporary names.
bool has_possible_length(const std::filesystem::path& path);

}  // namespace penstock::detail
