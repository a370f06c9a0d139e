// MappedFile, read_file(): a file's bytes, through a memory map or copied.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/error.h"
#include "loader/detail/map_guard.h"

namespace penstock::detail {

/// The whole file, mapped read-only; empty for an empty file. The map's start is page-aligned. Errors: io_error naming
/// the file. Thread-safety: immutable after construction.
///
/// A page that cannot be read when it is touched, because somebody has cut the file short or the disk fails, reads as
/// zeros (MapGuard). So what was made of the bytes counts only after check_read() or check_file() has found that they
/// were the file's (read_from()).
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept = default;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const uint8_t> bytes() const { return bytes_; }

  /// Throws io_error `<where>: <what happened to the file>` when `used`, a part of bytes() that was read before, has a
  /// page that could not be read. Where speed counts: only if has_map_faults().
  void check_read(std::span<const uint8_t> used, const std::string& where) const;
  void check_read() const { check_read(bytes_, path_.string()); }
  /// check_read(), and whether the file still has all of `used`: what is cut off of its last page reads as zeros
  /// without a fault. Asks the file system: for the end of an epoch, and before an error is blamed on the bytes.
  void check_file(std::span<const uint8_t> used, const std::string& where) const;
  void check_file() const { check_file(bytes_, path_.string()); }

 private:
  /// The length that the file has now, or the map's where the file is gone or another one has taken its name: a map
  /// keeps what it maps.
  size_t length_now() const;

  std::filesystem::path path_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  std::span<const uint8_t> bytes_;
  std::unique_ptr<MapGuard> guard_;  // null for an empty file
};

/// A regular file's bytes, copied. When the file becomes shorter meanwhile there are fewer. Errors: io_error naming the
/// file.
std::vector<uint8_t> read_file(const std::filesystem::path& path);

}  // namespace penstock::detail
