// The names that files and folders of a split have in foreign data sets.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/text.h"

namespace penstock::detail {

/// Those of test are also val, valid and validation.
inline std::vector<std::string> split_names(const std::string& split) {
  return split == "test" ? std::vector<std::string>{"test", "val", "valid", "validation"} : std::vector{split};
}

/// INPUT/<name of the split><ending>, where it is there; for an empty ending a folder, otherwise a file. Throws
/// config_error when there are two, because only the user can say which one is meant.
inline std::optional<std::filesystem::path> split_entry(const std::filesystem::path& input, const std::string& split,
                                                        const std::string& ending) {
  std::vector<std::filesystem::path> found;
  for (const auto& name : split_names(split)) {
    auto path = input / (name + ending);
    if (ending.empty() ? std::filesystem::is_directory(path) : std::filesystem::is_regular_file(path))
      found.push_back(std::move(path));
  }
  if (found.size() > 1)
    throw config_error(concat(input.string(), ": has both ", found[0].filename().string(), " and ",
                              found[1].filename().string(), "; expected one of them for split ", split));
  return found.empty() ? std::nullopt : std::optional(std::move(found.front()));
}

}  // namespace penstock::detail
