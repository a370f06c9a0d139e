// AtomicFile: a file that appears under its name complete or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "core/error.h"

namespace penstock {

/// Writes a file aside; commit() syncs it, renames it to PATH and syncs the folder. Without commit() no file is left.
///
/// Aside is PATH's folder, where the file is `.penstock-<number>.tmp`, under the first number that is free. The file is
/// new (O_EXCL), so that in a folder in which others may write no link of theirs is followed. It is locked until it has
/// its own name: a file of such a name that nobody holds was left by a process that was killed, and whoever comes to
/// its number next removes it. A file system without locks keeps it.
///
/// Errors: io_error with the name of the file and the message of the system (for a full disk: "No space left on
/// device").
/// Memory: a buffer of 1 MiB. Thread-safety: none; any number of files may be written at the same time.
class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const uint8_t> bytes);  ///< Appends the bytes.
  void write(std::string_view text);
  /// Writes bytes at `offset`, also where none were appended: what lies before them is 0 until it is written.
  void overwrite(uint64_t offset, std::span<const uint8_t> bytes);
  void overwrite(uint64_t offset, std::string_view text);
  /// How many were appended.
  uint64_t byte_count() const { return written_count_ + buffer_.size(); }
  void commit();
  /// Never replaces a file, and syncs nothing: for many files that can be made again.
  void commit_as_new();

 private:
  void flush();
  void write_at(uint64_t offset, std::span<const uint8_t> bytes);
  Error rename_error() const;

  std::filesystem::path path_, aside_;
  int fd_ = -1;
  uint64_t written_count_ = 0;
  std::vector<uint8_t> buffer_;
};

/// Whether a file of this name is one that an AtomicFile writes, or has left.
bool is_aside_name(std::string_view name);

/// Removes the files in `folder` that AtomicFiles of killed processes have left. A file system without locks cannot
/// tell them from others, and there all go: for a folder that the caller has for itself. What cannot be removed stays.
void remove_left_asides(const std::filesystem::path& folder);

/// Makes renames and new names inside `folder` durable.
void sync_folder(const std::filesystem::path& folder);

/// Writes a whole small file by an AtomicFile.
void write_text(const std::filesystem::path& path, std::string_view text);

}  // namespace penstock
