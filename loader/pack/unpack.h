// unpack(): turns a packed split back into the files from which it was made.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "loader/shards/problems.h"

namespace penstock {

struct UnpackProgress {
  uint64_t done_count = 0, total_count = 0;  ///< Files.
  uint64_t byte_count = 0;                   ///< Written.
  double seconds = 0;
};

/// Writes every sample of the split in `split_folder` below `output`, under the path that its source had, or as
/// <split>/<class>/<id>.<jpg|png> where it had none; a path of several samples gets the id before its ending, and a
/// name that is too long for a file system, as with an ending of its own it may become, is the id. JPEG and PNG files
/// get the bytes that were packed. The exception is a JPEG stored as coefficients, which comes back byte for byte only
/// where pack() found that it does, and otherwise with the same coefficients. Raw pixels become PNG. A file appears
/// whole or not at all; a kill may leave a hidden
/// `.unpack-*` beside it. `jobs` is the number of threads; 0: one per core.
///
/// Returns what was left out, which is broken samples and paths that would leave `output`; of each shard it names the
/// first ones. `on_progress` is called on the calling thread about ten times per second, and at the end.
///
/// Errors: io_error, also for a file that exists, because nothing is overwritten; and what Dataset::open() throws. What
/// was written before an error stays.
Problems unpack(const std::filesystem::path& split_folder, const std::filesystem::path& output, int jobs = 0,
                const std::function<void(const UnpackProgress&)>& on_progress = {});

}  // namespace penstock
