// ScratchFolder: a new folder in TMPDIR that is removed with its owner.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "core/error.h"

namespace penstock {

/// Removes the folder and what is in it when it is destroyed. Thread-safety: none.
class ScratchFolder {
 public:
  /// The folder's name begins with `name`. Throws io_error.
  explicit ScratchFolder(const std::string& name) {
    std::string path = (std::filesystem::temp_directory_path() / (name + "-XXXXXX")).string();
    if (mkdtemp(path.data()) == nullptr) throw errno_error(path, "expected a folder that can be written (see TMPDIR)");
    path_ = path;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace penstock
