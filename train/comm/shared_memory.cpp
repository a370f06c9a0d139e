// SharedMemory: memfd, locks of open files, futexes.
#include "train/comm/shared_memory.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>
#include <utility>

#include "core/text.h"

namespace penstock::detail {
namespace {

static_assert(std::atomic<uint32_t>::is_always_lock_free && sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));

struct flock seat_lock(int seat) {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = seat;
  lock.l_len = 1;
  return lock;
}

/// Linux sends a signal to a process that lengthens a file over this limit.
bool may_write(size_t bytes) {
  rlimit limit = {};
  return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur;
}

}  // namespace

std::optional<SharedMemory> SharedMemory::make(size_t bytes) {
  const int file = may_write(bytes) ? memfd_create("penstock", MFD_CLOEXEC) : -1;
  if (file < 0) return std::nullopt;
  if (ftruncate(file, static_cast<off_t>(bytes)) == 0) return map(file, bytes);
  close(file);
  return std::nullopt;
}

std::optional<SharedMemory> SharedMemory::of_process(int64_t pid, int file, size_t bytes) {
  const int opened = open(concat("/proc/", pid, "/fd/", file).c_str(), O_RDWR | O_CLOEXEC | O_NOCTTY);
  if (opened < 0) return std::nullopt;
  struct stat status = {};
  if (fstat(opened, &status) == 0 && S_ISREG(status.st_mode) && status.st_size == static_cast<off_t>(bytes))
    return map(opened, bytes);
  close(opened);
  return std::nullopt;
}

std::optional<SharedMemory> SharedMemory::map(int file, size_t bytes) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (data != MAP_FAILED) return SharedMemory(static_cast<std::byte*>(data), bytes, file);
  close(file);
  return std::nullopt;
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_), file_(std::exchange(other.file_, -1)) {}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) munmap(data_, bytes_);
  close_file();
}

void SharedMemory::close_file() {
  if (file_ >= 0) close(std::exchange(file_, -1));
}

bool SharedMemory::take_seat(int seat) const {
  auto lock = seat_lock(seat);
  return fcntl(file_, F_OFD_SETLK, &lock) == 0;
}

bool SharedMemory::is_taken(int seat) const {
  auto lock = seat_lock(seat);
  return fcntl(file_, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

void wait_while(std::atomic<uint32_t>& word, uint32_t value, std::chrono::milliseconds time) {
  const timespec most{.tv_sec = time.count() / 1000, .tv_nsec = time.count() % 1000 * 1'000'000};
  syscall(SYS_futex, &word, FUTEX_WAIT, value, &most, nullptr, 0);
}

void wake_all(std::atomic<uint32_t>& word) { syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0); }

}  // namespace penstock::detail
