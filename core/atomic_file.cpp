// AtomicFile: writes under a temporary name, syncs, and renames.
#include "core/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "core/error.h"
#include "core/text.h"

namespace penstock {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;

std::span<const uint8_t> as_bytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

}  // namespace

AtomicFile::AtomicFile(const std::filesystem::path& path, Aside aside) : path_(path), aside_(path.string() + ".tmp") {
  const int replace_or_fail = aside == Aside::kTmp ? O_TRUNC : O_EXCL;
  for (int attempt = 0; fd_ < 0; ++attempt) {
    if (aside == Aside::kNew) aside_ = path.parent_path() / concat(".penstock-", getpid(), "-", attempt, ".tmp");
    fd_ = open(aside_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | replace_or_fail, 0666);
    const bool is_taken = aside == Aside::kNew && errno == EEXIST;
    if (fd_ < 0 && !is_taken)
      throw errno_error((aside == Aside::kNew ? path_ : aside_).string(), "expected to create it");
  }
  buffer_.reserve(kBufferBytes);
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  close(fd_);
  std::error_code ignored;  // the error for which the file is abandoned has been thrown already
  std::filesystem::remove(aside_, ignored);
}

void AtomicFile::write_at(uint64_t offset, std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0)
      throw errno_error(path_.string(), concat("expected to write ", bytes.size(), " bytes at byte ", offset));
    bytes = bytes.subspan(static_cast<size_t>(count));
    offset += static_cast<uint64_t>(count);
  }
}

void AtomicFile::flush() {
  write_at(written_count_, buffer_);
  written_count_ += buffer_.size();
  buffer_.clear();
}

void AtomicFile::write(std::span<const uint8_t> bytes) {
  if (buffer_.size() + bytes.size() > kBufferBytes) flush();
  if (bytes.size() >= kBufferBytes) {
    write_at(written_count_, bytes);
    written_count_ += bytes.size();
  } else {
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  }
}

void AtomicFile::write(std::string_view text) { write(as_bytes(text)); }

void AtomicFile::overwrite(uint64_t offset, std::span<const uint8_t> bytes) {
  flush();
  write_at(offset, bytes);
}

void AtomicFile::overwrite(uint64_t offset, std::string_view text) { overwrite(offset, as_bytes(text)); }

void AtomicFile::commit() {
  flush();
  if (fsync(fd_) != 0) throw errno_error(path_.string(), "expected to sync it to the disk");
  const int fd = fd_;
  fd_ = -1;
  if (close(fd) != 0 || std::rename(aside_.c_str(), path_.c_str()) != 0) {
    const Error error =
        errno_error(path_.string(), concat("expected to rename ", aside_.filename().string(), " to it"));
    std::error_code ignored;
    std::filesystem::remove(aside_, ignored);
    throw error;
  }
  sync_folder(path_.parent_path());
}

void sync_folder(const std::filesystem::path& folder) {
  const std::string name = folder.empty() ? "." : folder.string();
  const int fd = open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) throw errno_error(name, "expected a folder to sync");
  const int result = fsync(fd);
  const int code = errno;
  close(fd);
  // EINVAL means that the file system has nothing to sync for folders.
  if (result != 0 && code != EINVAL) {
    errno = code;
    throw errno_error(name, "expected to sync the folder");
  }
}

void write_text(const std::filesystem::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

}  // namespace penstock
