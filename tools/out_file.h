// The file that a flag names for the results of a tool: checked before the work, and written so that no other is lost.
#pragma once

#include <string>
#include <string_view>

#include "loader/shards/dataset.h"

namespace penstock {

/// Throws if write_out_file() would not write to `path`, so that this shows before the work and not after it:
/// config_error if it lies in a split of the data set that is read, whose files it could replace; io_error if it is a
/// folder, or if no file can be made beside it.
void check_out_file(const std::string& flag, const std::string& path, const Dataset& dataset);

/// Writes `bytes` under a name that nothing has, and then renames that file to `path`; what a link leads to is replaced
/// and not the link. A device, a pipe or /dev/stdout is written to directly. Throws io_error naming the flag.
void write_out_file(const std::string& flag, const std::string& path, std::string_view bytes);

}  // namespace penstock
