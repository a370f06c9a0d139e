// RegularFile: open() without waiting, and fstat() of what was opened.
#include "core/regular_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "core/error.h"
#include "core/text.h"

namespace penstock {
namespace {

/// Bytes: a vector of bytes or a string.
template <class Bytes>
Bytes read_whole(const std::filesystem::path& path, uint64_t max_byte_count) {
  const RegularFile file(path);
  const auto byte_count = static_cast<uint64_t>(file.status().st_size);
  if (byte_count > max_byte_count)
    throw corrupt_error(concat(path.string(), ": ", byte_count, " bytes; expected at most ", max_byte_count));
  Bytes bytes;
  bytes.resize(byte_count);
  size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t count = read(file.descriptor(), bytes.data() + filled, bytes.size() - filled);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw errno_error(path.string(), concat("expected to read its ", bytes.size(), " bytes"));
    if (count == 0) break;  // it has become shorter
    filled += static_cast<size_t>(count);
  }
  bytes.resize(filled);
  return bytes;
}

}  // namespace

// Without O_NONBLOCK, opening a pipe that no process writes to would wait for ever. It has no effect on a regular file.
RegularFile::RegularFile(const std::filesystem::path& path)
    : descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (descriptor_ < 0) throw errno_error(path.string(), "expected a readable file");
  const bool is_known = fstat(descriptor_, &status_) == 0;
  if (is_known && S_ISREG(status_.st_mode)) return;
  const Error error = is_known ? io_error(concat(path.string(), ": not a regular file; expected one"))
                               : errno_error(path.string(), "expected a readable file");
  close(descriptor_);
  throw error;
}

RegularFile::~RegularFile() { close(descriptor_); }

std::vector<uint8_t> read_file(const std::filesystem::path& path, uint64_t max_byte_count) {
  return read_whole<std::vector<uint8_t>>(path, max_byte_count);
}

std::string read_text(const std::filesystem::path& path, uint64_t max_byte_count) {
  return read_whole<std::string>(path, max_byte_count);
}

}  // namespace penstock
