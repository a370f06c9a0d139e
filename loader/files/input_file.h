// What sources share: the checks of what they are given, and the fingerprint of a file.
#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

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

/// Throws config_error where two of `paths` are one file or folder, whose samples would come twice.
inline void check_each_once(const std::string& where, const std::vector<std::filesystem::path>& paths) {
  std::map<std::filesystem::path, std::filesystem::path> seen;  // the path without links -> as it was given
  for (const auto& path : paths) {
    const auto [first, is_new] = seen.emplace(std::filesystem::weakly_canonical(path), path);
    if (!is_new)
      throw config_error(concat(where, ": ", path.string(), " is given twice, first as ", first->second.string(),
                                "; expected each once (--sampler repeats samples)"));
  }
}

/// While one lives, file_fingerprint() on this thread is that of local_fingerprint().
class StrictFingerprints {
 public:
  StrictFingerprints() : before_(std::exchange(is_on_, true)) {}
  ~StrictFingerprints() { is_on_ = before_; }
  StrictFingerprints(const StrictFingerprints&) = delete;
  StrictFingerprints& operator=(const StrictFingerprints&) = delete;
  static bool is_on() { return is_on_; }

 private:
  static inline thread_local bool is_on_ = false;
  bool before_;
};

/// Name, size and time of the last change, as a text that differs whenever the file was written in between. It is the
/// same for a relative and an absolute way to the file; links are not followed.
inline std::string file_fingerprint(const std::filesystem::path& path) {
  struct stat status {};
  const bool is_strict = StrictFingerprints::is_on() && stat(path.c_str(), &status) == 0;
  return concat(std::filesystem::absolute(path).lexically_normal().string(), " ", std::filesystem::file_size(path), " ",
                std::filesystem::last_write_time(path).time_since_epoch().count(),
                is_strict ? concat(" ", status.st_ino, " ", status.st_ctim.tv_sec, ".", status.st_ctim.tv_nsec) : "",
                "\n");
}

}  // namespace penstock::detail
