// RegularFile: a file that is opened for reading only if it is a regular one, so that no pipe or device is waited for.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace penstock {

/// An open file, after all links. Errors: io_error naming the file, also for a folder, a pipe and a device: opening a
/// pipe would wait for a writer, and /dev/zero has no end. Thread-safety: immutable after construction.
class RegularFile {
 public:
  explicit RegularFile(const std::filesystem::path& path);
  ~RegularFile();
  RegularFile(const RegularFile&) = delete;
  RegularFile& operator=(const RegularFile&) = delete;

  int descriptor() const { return descriptor_; }
  const struct stat& status() const { return status_; }

 private:
  int descriptor_;
  struct stat status_ {};
};

/// What people write by hand, and what programs keep for themselves, is no larger: 64 MiB.
constexpr uint64_t kMostOfText = uint64_t{64} << 20;
constexpr uint64_t kMostOfLog = uint64_t{4} << 30;  ///< What programs write while they run, as the trace of a run.

/// A regular file's bytes, copied. There are fewer when the file becomes shorter meanwhile. Errors: those of
/// RegularFile; corrupt_error, before anything is read, for a file of more than `max_byte_count` bytes.
std::vector<uint8_t> read_file(const std::filesystem::path& path, uint64_t max_byte_count);
std::string read_text(const std::filesystem::path& path, uint64_t max_byte_count = kMostOfText);

}  // namespace penstock
