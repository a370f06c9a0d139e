// MappedFile: mmap and its errors.
#include "loader/detail/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

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

/// The size of the regular file that `file` has been opened on.
size_t size_of(const Descriptor& file, const std::filesystem::path& path) {
  struct stat status {};
  if (file.fd < 0 || fstat(file.fd, &status) != 0) throw errno_error(path.string(), "expected a readable file");
  if (!S_ISREG(status.st_mode)) throw io_error(concat(path.string(), ": not a regular file; expected one"));
  return static_cast<size_t>(status.st_size);
}

// O_NONBLOCK: opening a pipe that nobody writes to would wait for ever; a regular file does not heed it.
constexpr int kOpenFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;

}  // namespace

std::vector<uint8_t> read_file(const std::filesystem::path& path) {
  const Descriptor file{open(path.c_str(), kOpenFlags)};
  std::vector<uint8_t> bytes(size_of(file, path));
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

MappedFile::MappedFile(const std::filesystem::path& path) {
  const Descriptor file{open(path.c_str(), kOpenFlags)};
  const size_t size = size_of(file, path);
  if (size == 0) return;
  void* const map = mmap(nullptr, size, PROT_READ, MAP_SHARED, file.fd, 0);
  if (map == MAP_FAILED) throw errno_error(path.string(), concat("expected to map its ", size, " bytes"));
  bytes_ = {static_cast<const uint8_t*>(map), size};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<uint8_t*>(bytes_.data()), bytes_.size());
}

}  // namespace penstock::detail
