// Temporary places: a file without a name, which is gone with the process, however that ends, and a new folder in
// TMPDIR, which is removed with its owner.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>

#include "core/error.h"

namespace penstock {

/// Bytes on the disk that are appended, and read again by position. Errors: io_error, which names the folder.
/// Thread-safety: read() may be called on many threads once nothing is appended any more.
class UnnamedFile {
 public:
  /// In `folder` or the nearest folder above it that exists. `what` says in messages what it holds.
  UnnamedFile(const std::filesystem::path& folder, std::string what);
  ~UnnamedFile();
  UnnamedFile(const UnnamedFile&) = delete;
  UnnamedFile& operator=(const UnnamedFile&) = delete;

  void append(std::span<const uint8_t> bytes);
  void read(uint64_t offset, std::span<uint8_t> bytes) const;  ///< Requires that as many were appended.
  uint64_t byte_count() const { return byte_count_; }
  /// A path by which this process can open the file again, as long as this object is there.
  std::filesystem::path link() const;

 private:
  std::filesystem::path folder_;
  std::string what_;
  int fd_ = -1;
  uint64_t byte_count_ = 0;
};

/// A folder of its own, made by mkdtemp(). Removes the folder and what is in it when it is destroyed. Thread-safety:
/// none.
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
