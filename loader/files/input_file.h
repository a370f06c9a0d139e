// What sources share: the check of the input folder, and the fingerprint of a file.
#pragma once

#include <filesystem>
#include <string>

#include "core/error.h"
#include "core/text.h"

namespace penstock::detail {

/// Returns `folder`. Throws config_error when it is empty, and io_error when it is not a folder.
inline const std::filesystem::path& input_folder(const std::string& source, const std::filesystem::path& folder) {
  if (folder.empty())
    throw config_error(concat("source ", source, ": no input folder; expected --input DIR (shardprep) or --data ",
                              source, ":DIR (train)"));
  if (!std::filesystem::is_directory(folder))
    throw io_error(concat(folder.string(), ": no such folder; expected the input of source ", source));
  return folder;
}

/// Name, size and time of the last change, as a text that differs whenever the file was written in between. It is the
/// same for a relative and an absolute way to the file; links are not followed.
inline std::string file_fingerprint(const std::filesystem::path& path) {
  return concat(std::filesystem::absolute(path).lexically_normal().string(), " ", std::filesystem::file_size(path), " ",
                std::filesystem::last_write_time(path).time_since_epoch().count(), "\n");
}

}  // namespace penstock::detail
