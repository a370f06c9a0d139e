// Codebook files: a codebook that is trained once and that many packings use.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "loader/pack/pack_options.h"
#include "loader/sources/source.h"

namespace penstock {

/// Writes the codebook that pack() would train for the source; an empty file where it would need none. Up to 256
/// pictures are read. `jobs`: threads; 0: one per core. Errors: config_error where these options store no coefficients,
/// io_error.
void write_codebook(const Source& source, const StorageOptions& storage, int jobs, const std::filesystem::path& path);

namespace detail {

class Codebook;

/// Null for an empty file. Throws io_error, and corrupt_error naming the file.
std::shared_ptr<const Codebook> read_codebook(const std::filesystem::path& path);

/// The codebook of a packing: that of options.codebook, otherwise one that is trained. Parts with the same `key` leave
/// it for each other.
std::shared_ptr<const Codebook> codebook_of(const Source& source, const PackOptions& options, const std::string& key);

}  // namespace detail
}  // namespace penstock
