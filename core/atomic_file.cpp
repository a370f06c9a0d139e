// AtomicFile: writes under a temporary name, syncs, and renames.
#include "core/atomic_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "core/bytes.h"
#include "core/text.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

constexpr size_t kBufferBytes = size_t{1} << 20;
constexpr std::string_view kAsideBegin = ".penstock-", kAsideEnd = ".tmp";
// Threads and processes that write into one folder at the same time are tens at most.
constexpr int kMostAsides = 10000;

/// Whether `path` is still the name of the open file, and no link to it.
bool is_name_of(const fs::path& path, int fd) {
  struct stat opened {
  }, named{};
  return fstat(fd, &opened) == 0 && lstat(path.c_str(), &named) == 0 && opened.st_ino == named.st_ino &&
         opened.st_dev == named.st_dev;
}

/// Removes a file of this user that nobody writes any more. As long as the lock is held, no other process can take the
/// name from the file, so that what is removed is what was looked at. `without_locks` is the answer of a file system
/// that has none.
bool remove_if_left(const fs::path& aside, bool without_locks) {
  const int fd = open(aside.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return false;
  struct stat status {};
  const bool is_own = fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid();
  const bool is_left = is_own && (flock(fd, LOCK_EX | LOCK_NB) == 0 || (errno != EWOULDBLOCK && without_locks));
  const bool is_removed = is_left && is_name_of(aside, fd) && unlink(aside.c_str()) == 0;
  close(fd);
  return is_removed;
}

/// Opens a new file in `folder`, sets `aside` to its name, and returns its descriptor; -1 if there is none, with errno.
int open_aside(const fs::path& folder, fs::path& aside) {
  for (int number = 0; number < kMostAsides;) {
    aside = folder / concat(kAsideBegin, number, kAsideEnd);
    const int fd = open(aside.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd >= 0) {
      const bool is_locked = flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
      if (is_locked && is_name_of(aside, fd)) return fd;
      close(fd);  // another process has taken it for one that was left: that one removes it
    } else if (errno != EEXIST) {
      return -1;
    }
    if (!remove_if_left(aside, /*without_locks=*/false)) ++number;
  }
  errno = EEXIST;
  return -1;
}

/// Fails with EEXIST where something has the name `to`.
bool rename_as_new(const fs::path& from, const fs::path& to) {
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return true;
  if (errno != EINVAL && errno != ENOSYS) return false;
  // On a file system without the flag (NFS), an empty file claims the name first.
  const int fd = open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) return false;
  if (close(fd) == 0 && std::rename(from.c_str(), to.c_str()) == 0) return true;
  const int code = errno;
  unlink(to.c_str());  // the empty file must not look like the whole one
  errno = code;
  return false;
}

}  // namespace

AtomicFile::AtomicFile(const fs::path& path) : path_(path) {
  std::error_code ignored;
  if (fs::is_directory(fs::symlink_status(path, ignored)))
    errno = EISDIR;  // so that this shows before the work, and not by the rename after it
  else
    fd_ = open_aside(path.parent_path(), aside_);
  if (fd_ < 0) throw errno_error(path_.string(), "expected to create it");
  buffer_.reserve(kBufferBytes);
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  unlink(aside_.c_str());  // the error for which the file is abandoned has been thrown already
  close(fd_);
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

Error AtomicFile::rename_error() const {
  return errno_error(path_.string(), concat("expected to rename ", aside_.filename().string(), " to it"));
}

// The lock lasts until the file has its own name, so that no other process takes it for one that was left.
void AtomicFile::commit() {
  flush();
  if (fsync(fd_) != 0) throw errno_error(path_.string(), "expected to sync it to the disk");
  if (std::rename(aside_.c_str(), path_.c_str()) != 0) throw rename_error();
  close(std::exchange(fd_, -1));
  sync_folder(path_.parent_path());
}

void AtomicFile::commit_as_new() {
  flush();
  // Some file systems report only when a descriptor is closed that there is no room.
  if (close(dup(fd_)) != 0) throw errno_error(path_.string(), "expected to close it");
  if (!rename_as_new(aside_, path_)) throw rename_error();
  close(std::exchange(fd_, -1));
}

bool is_aside_name(std::string_view name) {
  if (!name.starts_with(kAsideBegin) || !name.ends_with(kAsideEnd)) return false;
  const std::string_view number = name.substr(kAsideBegin.size(), name.size() - kAsideBegin.size() - kAsideEnd.size());
  return !number.empty() && number.find_first_not_of("0123456789") == std::string_view::npos;
}

void remove_left_asides(const fs::path& folder) {
  std::error_code failure;
  std::vector<fs::path> asides;
  for (fs::directory_iterator entry(folder, failure), end; !failure && entry != end; entry.increment(failure))
    if (is_aside_name(entry->path().filename().native())) asides.push_back(entry->path());
  for (const auto& aside : asides) remove_if_left(aside, /*without_locks=*/true);
}

void sync_folder(const fs::path& folder) {
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

void write_text(const fs::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

}  // namespace penstock
