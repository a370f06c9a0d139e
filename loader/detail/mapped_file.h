// MappedFile, read_file(): a file's bytes, through a memory map or copied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <utility>
#include <vector>

namespace penstock::detail {

/// The whole file, mapped read-only; empty for an empty file. The map's start is page-aligned. A file that somebody
/// shortens while it is mapped ends the process with SIGBUS: shards are renamed into place and never changed, so that
/// this needs ill will. Errors: io_error naming the file. Thread-safety: immutable after construction.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  std::span<const uint8_t> bytes() const { return bytes_; }

 private:
  std::span<const uint8_t> bytes_;
};

/// A regular file's bytes, copied: reading a map of a file that somebody else cuts short would end this process, here
/// there are fewer bytes. Errors: io_error naming the file.
std::vector<uint8_t> read_file(const std::filesystem::path& path);

}  // namespace penstock::detail
