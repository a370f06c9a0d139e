// unpack(): a packed split back into the files it was made from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "loader/problems.h"

namespace penstock {

struct UnpackProgress {
  uint64_t done_count = 0, total_count = 0;  ///< Files.
  uint64_t byte_count = 0;                   ///< Written.
  double seconds = 0;
};

/// Writes every sample of the split in `split_folder` below `output`, under the path that its source had, or as
/// <split>/<class>/<id>.<jpg|png> where it had none. JPEG and PNG files are the bytes that were packed (a JPEG stored
/// as coefficients: to the byte where pack() found that it comes back so, otherwise with the same coefficients); raw
/// pixels become PNG. A file appears whole or not at all; a kill may leave a hidden `.unpack-*` beside it. `jobs`:
/// threads; 0: one a core.
///
/// Returns what was left out, of each shard the first samples by name: broken ones, and paths that would leave
/// `output`. Errors: io_error, also for a file that exists: nothing is overwritten; what was written before an error
/// stays; what Dataset::open() throws. `on_progress` is called on the calling thread about ten times a second, and at
/// the end.
Problems unpack(const std::filesystem::path& split_folder, const std::filesystem::path& output, int jobs = 0,
                const std::function<void(const UnpackProgress&)>& on_progress = {});

}  // namespace penstock
