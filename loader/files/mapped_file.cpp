// MappedFile: mmap and its errors.
#include "loader/files/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "core/text.h"

namespace penstock::detail {
namespace {

Error cut_error(const std::string& where, size_t byte_count, size_t length) {
  return io_error(concat(where, ": the file was cut short while it was read, from ", byte_count, " bytes to ", length,
                         "; expected that nobody changes it"));
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path, const RegularFile& file) : FileMap(path) {
  const auto size = static_cast<size_t>(file.status().st_size);
  device_ = file.status().st_dev;
  inode_ = file.status().st_ino;
  if (size == 0) return;
  void* const map = mmap(nullptr, size, PROT_READ, MAP_SHARED, file.descriptor(), 0);
  if (map == MAP_FAILED) {
    const char* const limit = errno == ENOMEM ? ", within the memory and the maps of a process (vm.max_map_count)" : "";
    throw errno_error(path.string(), concat("expected to map its ", size, " bytes", limit));
  }
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

void MappedFile::read_ahead() const {
  if (guard_) madvise(const_cast<uint8_t*>(bytes_.data()), bytes_.size(), MADV_WILLNEED);
}

void MappedFile::drop() const {
  if (!guard_) return;
  madvise(const_cast<uint8_t*>(bytes_.data()), bytes_.size(), MADV_DONTNEED);
  const int file = open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return;  // the name is gone, and the kernel takes the pages when it needs their memory
  posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  close(file);
}

}  // namespace penstock::detail
