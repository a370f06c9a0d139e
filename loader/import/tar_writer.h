// TarWriter: a ustar archive with the same bytes for the same members.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/atomic_file.h"

namespace penstock::detail {

/// Members are plain files of mode 0644, user and group 0, time 0. Errors: io_error; bug_error for a path of more than
/// 100 bytes or a member of 8 GiB. Without finish() no file is left.
class TarWriter {
 public:
  explicit TarWriter(const std::filesystem::path& file) : file_(file) {}
  void add(const std::string& path, std::span<const uint8_t> bytes);
  void finish();
  uint64_t byte_count() const { return file_.byte_count(); }

 private:
  AtomicFile file_;
};

}  // namespace penstock::detail
