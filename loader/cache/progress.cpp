// Progress: read and written.
#include "loader/cache/progress.h"

#include <unistd.h>

#include <cstring>

#include "core/error.h"

namespace penstock::detail {

std::optional<Progress> read_progress(int descriptor, uint64_t byte_count) {
  Progress progress{};
  const auto at = static_cast<off_t>(byte_count);
  if (pread(descriptor, &progress, sizeof progress, at) != static_cast<ssize_t>(sizeof progress)) return {};
  if (std::memcmp(progress.magic, kProgressMagic, sizeof kProgressMagic) != 0 || progress.done > byte_count) return {};
  progress.etag[sizeof progress.etag - 1] = '\0';
  return progress;
}

void write_progress(int descriptor, uint64_t byte_count, const Progress& progress) {
  if (pwrite(descriptor, &progress, sizeof progress, static_cast<off_t>(byte_count)) != sizeof progress)
    throw errno_error("the cache", "expected to write how far a download is");
}

}  // namespace penstock::detail
