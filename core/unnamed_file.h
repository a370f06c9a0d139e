// UnnamedFile: a file without a name, which is gone with the process, however that ends.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

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

}  // namespace penstock
