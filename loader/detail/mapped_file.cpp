// MappedFile: mmap and its errors.
#include "loader/detail/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) {
  // O_NONBLOCK: opening a pipe that nobody writes to would wait for ever; a regular file does not heed it.
  const Descriptor file{open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  struct stat status {};
  if (file.fd < 0 || fstat(file.fd, &status) != 0) throw errno_error(path.string(), "expected a readable file");
  if (!S_ISREG(status.st_mode)) throw io_error(concat(path.string(), ": not a regular file; expected one"));
  const auto size = static_cast<size_t>(status.st_size);
  if (size == 0) return;
  void* const map = mmap(nullptr, size, PROT_READ, MAP_SHARED, file.fd, 0);
  if (map == MAP_FAILED) throw errno_error(path.string(), concat("expected to map its ", size, " bytes"));
  bytes_ = {static_cast<const uint8_t*>(map), size};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<uint8_t*>(bytes_.data()), bytes_.size());
}

}  // namespace penstock::detail
