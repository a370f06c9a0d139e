// MappedFile: a file's bytes, through a memory map.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "core/error.h"
#include "loader/files/map_guard.h"

namespace penstock::detail {

/// The whole file, mapped read-only; empty for an empty file. The map's start is page-aligned. Errors: io_error naming
/// the file. Thread-safety: immutable after construction.
///
/// A page that cannot be read when it is touched, because the file was cut short or the disk fails, reads as zeros
/// (MapGuard). What was computed from the bytes is therefore valid only after check_read() or check_file() has found
/// that the bytes were the file's; read_from() does that.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept = default;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const uint8_t> bytes() const { return bytes_; }

  /// Throws io_error `<where>: <what happened to the file>` when `used`, a part of bytes() that was read before, has a
  /// page that could not be read. Where speed counts, call it only if has_map_faults().
  void check_read(std::span<const uint8_t> used, const std::string& where) const;
  void check_read() const { check_read(bytes_, path_.string()); }
  /// As check_read(), and also checks that the file still has all of `used`: what is cut off its last page reads as
  /// zeros without a fault. Asks the file system. Meant for the end of an epoch, and before an error is blamed on the
  /// bytes.
  void check_file(std::span<const uint8_t> used, const std::string& where) const;
  void check_file() const { check_file(bytes_, path_.string()); }

 private:
  /// The length that the file has now. When the file is gone or another one has taken its name, it is the length of the
  /// map, because a map keeps what it maps.
  size_t length_now() const;

  std::filesystem::path path_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  std::span<const uint8_t> bytes_;
  std::unique_ptr<MapGuard> guard_;  // null for an empty file
};

}  // namespace penstock::detail
