// UnnamedFile: O_TMPFILE; where the file system has none, a file whose name is removed at once.
#include "core/temporary.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "core/text.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

fs::path existing_folder(const fs::path& folder) {
  fs::path at = fs::absolute(folder);
  std::error_code ignored;
  while (!fs::is_directory(at, ignored) && at.has_relative_path()) at = at.parent_path();
  return at;
}

int open_unnamed(const fs::path& folder) {
  const int file = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file >= 0) return file;
  std::string name = (folder / ".penstock-XXXXXX").string();
  const int named = mkostemp(name.data(), O_CLOEXEC);
  if (named < 0) throw errno_error(folder.string(), "expected a folder that can be written to");
  unlink(name.c_str());
  return named;
}

}  // namespace

UnnamedFile::UnnamedFile(const fs::path& folder, std::string what)
    : folder_(existing_folder(folder)), what_(std::move(what)), fd_(open_unnamed(folder_)) {}
UnnamedFile::~UnnamedFile() { close(fd_); }

void UnnamedFile::append(std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(byte_count_));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw errno_error(concat(folder_.string(), ": ", what_), "expected room for all of it");
    byte_count_ += static_cast<uint64_t>(count);
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
}

void UnnamedFile::read(uint64_t offset, std::span<uint8_t> bytes) const {
  while (!bytes.empty()) {
    const ssize_t count = pread(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) throw errno_error(folder_.string(), "expected that what was written can be read");
    offset += static_cast<uint64_t>(count);
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
}

fs::path UnnamedFile::link() const { return concat("/proc/self/fd/", fd_); }

}  // namespace penstock
