// AtomicFile: a file that appears under its name complete or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

namespace penstock {

/// The name under which a file is written before it gets its own.
enum class Aside {
  kTmp,  ///< PATH.tmp, whose old content is lost: a program that was killed leaves one such file and not several.
  kNew,  ///< A hidden name in PATH's folder that nothing has: for folders that are not the program's own.
};

/// Writes a file aside; commit() syncs it, renames it to PATH and syncs the folder. Without commit() no file is left.
///
/// Errors: io_error with the name of the file and the message of the system (for a full disk: "No space left on
/// device").
/// Memory: a buffer of 1 MiB. Thread-safety: none.
class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& path, Aside aside = Aside::kTmp);
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

 private:
  void flush();
  void write_at(uint64_t offset, std::span<const uint8_t> bytes);

  std::filesystem::path path_, aside_;
  int fd_ = -1;
  uint64_t written_count_ = 0;
  std::vector<uint8_t> buffer_;
};

/// Makes renames and new names inside `folder` durable.
void sync_folder(const std::filesystem::path& folder);

/// Writes a whole small file by an AtomicFile.
void write_text(const std::filesystem::path& path, std::string_view text);

}  // namespace penstock
