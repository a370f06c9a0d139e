// MappedFile: a local file's bytes, through a memory map.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "core/error.h"
#include "core/regular_file.h"
#include "loader/files/files.h"
#include "loader/files/map_guard.h"

namespace penstock::detail {

/// The whole file, mapped read-only; empty for an empty file. The map's start is page-aligned. Errors: io_error naming
/// the file.
///
/// A page that cannot be read when it is touched, because the file was cut short or the disk fails, reads as zeros
/// (MapGuard). What was computed from the bytes is therefore valid only after check_read() or check_file() has found
/// that the bytes were the file's; read_from() does that.
class MappedFile final : public FileMap {
 public:
  explicit MappedFile(const std::filesystem::path& path) : MappedFile(path, RegularFile(path)) {}
  MappedFile(const std::filesystem::path& path, const RegularFile& file);
  ~MappedFile() override;
  MappedFile(MappedFile&& other) noexcept = default;
  MappedFile& operator=(MappedFile&& other) noexcept;

  using FileMap::check_file, FileMap::check_read;
  void check_read(std::span<const uint8_t> used, const std::string& where) const override;
  /// Checks that the file still has all of `used`, because what is cut off its last page reads as zeros without a
  /// fault. Asks the file system.
  void check_file(std::span<const uint8_t> used, const std::string& where) const override;
  void read_ahead() const override;
  /// The pages leave this process, and the page cache unless another process has them mapped.
  void drop() const override;

 private:
  /// The length that the file has now. When the file is gone or another one has taken its name, it is the length of the
  /// map, because a map keeps what it maps.
  size_t length_now() const;

  dev_t device_ = 0;
  ino_t inode_ = 0;
  std::unique_ptr<MapGuard> guard_;  // null for an empty file
};

}  // namespace penstock::detail
