// What sources share: the input folder, and a file's state as a text.
#pragma once

#include <filesystem>
#include <string>

#include "core/error.h"
#include "core/text.h"

namespace penstock::detail {

/// `folder`, when it is one. Throws config_error without a name, io_error when it is no folder.
inline const std::filesystem::path& input_folder(const std::string& source, const std::filesystem::path& folder) {
  if (folder.empty())
    throw config_error(concat("source ", source, ": no input folder; expected --input DIR (shardprep) or --data ",
                              source, ":DIR (train)"));
  if (!std::filesystem::is_directory(folder))
    throw io_error(concat(folder.string(), ": no such folder; expected the input of source ", source));
  return folder;
}

/// Name, size and time of the last change: differs whenever the file was written in between.
inline std::string file_fingerprint(const std::filesystem::path& path) {
  return concat(path.string(), " ", std::filesystem::file_size(path), " ",
                std::filesystem::last_write_time(path).time_since_epoch().count(), "\n");
}

}  // namespace penstock::detail
