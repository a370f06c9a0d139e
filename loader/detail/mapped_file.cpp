// MappedFile: mmap and its errors.
#include "loader/detail/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "core/error.h"
#include "core/text.h"

namespace penstock::detail {
namespace {

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }
};

/// The status of the regular file that `file` has been opened on.
struct stat status_of(const Descriptor& file, const std::filesystem::path& path) {
  struct stat status {};
  if (file.fd < 0 || fstat(file.fd, &status) != 0) throw errno_error(path.string(), "expected a readable file");
  if (!S_ISREG(status.st_mode)) throw io_error(concat(path.string(), ": not a regular file; expected one"));
  return status;
}

// Without O_NONBLOCK, opening a pipe that no process writes to would wait for ever. It has no effect on a regular file.
constexpr int kOpenFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;

Error cut_error(const std::string& where, size_t byte_count, size_t length) {
  return io_error(concat(where, ": the file was cut short while it was read, from ", byte_count, " bytes to ", length,
                         "; expected that nobody changes it"));
}

}  // namespace

std::vector<uint8_t> read_file(const std::filesystem::path& path, uint64_t max_byte_count) {
  const Descriptor file{open(path.c_str(), kOpenFlags)};
  const auto byte_count = static_cast<uint64_t>(status_of(file, path).st_size);
  if (byte_count > max_byte_count)
    throw corrupt_error(concat(path.string(), ": ", byte_count, " bytes; expected at most ", max_byte_count));
  std::vector<uint8_t> bytes(byte_count);
  size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t count = read(file.fd, bytes.data() + filled, bytes.size() - filled);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw errno_error(path.string(), concat("expected to read its ", bytes.size(), " bytes"));
    if (count == 0) break;  // it has become shorter
    filled += static_cast<size_t>(count);
  }
  bytes.resize(filled);
  return bytes;
}

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  const Descriptor file{open(path.c_str(), kOpenFlags)};
  const auto status = status_of(file, path);
  const auto size = static_cast<size_t>(status.st_size);
  device_ = status.st_dev;
  inode_ = status.st_ino;
  if (size == 0) return;
  void* const map = mmap(nullptr, size, PROT_READ, MAP_SHARED, file.fd, 0);
  if (map == MAP_FAILED) throw errno_error(path.string(), concat("expected to map its ", size, " bytes"));
  bytes_ = {static_cast<const uint8_t*>(map), size};
  try {
    guard_ = std::make_unique<MapGuard>(bytes_);
  } catch (...) {
    munmap(map, size);
    throw;
  }
}

MappedFile::~MappedFile() {
  if (!guard_) return;
  guard_.reset();
  munmap(const_cast<uint8_t*>(bytes_.data()), bytes_.size());
}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(device_, other.device_);
  std::swap(inode_, other.inode_);
  std::swap(bytes_, other.bytes_);
  std::swap(guard_, other.guard_);
  return *this;
}

size_t MappedFile::length_now() const {
  struct stat status {};
  const bool is_there = stat(path_.c_str(), &status) == 0 && status.st_dev == device_ && status.st_ino == inode_;
  return is_there ? std::min(static_cast<size_t>(status.st_size), bytes_.size()) : bytes_.size();
}

void MappedFile::check_read(std::span<const uint8_t> used, const std::string& where) const {
  const auto offset = guard_ ? guard_->first_fault(used) : std::nullopt;
  if (!offset) return;
  const size_t length = length_now();
  if (length < bytes_.size()) throw cut_error(where, bytes_.size(), length);
  throw io_error(concat(where, ": byte ", *offset, " of the file cannot be read; expected a disk without errors"));
}

void MappedFile::check_file(std::span<const uint8_t> used, const std::string& where) const {
  check_read(used, where);
  const size_t length = length_now();
  if (used.empty() || static_cast<size_t>(used.data() - bytes_.data()) + used.size() <= length) return;
  throw cut_error(where, bytes_.size(), length);
}

}  // namespace penstock::detail
