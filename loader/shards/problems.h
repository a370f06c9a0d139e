// Problems: what is wrong with a data set, one line per problem.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/error.h"

namespace penstock {

struct Problems {
  static constexpr size_t kMaxLines = 20;  ///< Per file, because a broken disk would give one line per sample.

  /// One line per problem. For one file at most kMaxLines, and one that it cannot be read; then `... and N more`.
  std::vector<std::string> lines;
  uint64_t count = 0;
  uint64_t unlisted_count = 0;  ///< Problems that have no line.
  uint64_t io_count = 0;        ///< Problems that are files which are missing or cannot be read.

  bool is_files_only() const { return io_count == count; }

  void add(const std::string& line, ErrorKind kind = ErrorKind::kCorrupt);
  /// Appends the problems of the file or folder `name`.
  void append(const Problems& more, const std::string& name);

  /// Runs `body`. An io_error or corrupt_error becomes a problem whose line begins with `where`. Returns whether there
  /// was none.
  template <class Body>
  bool passes(const std::string& where, Body&& body) {
    try {
      body();
      return true;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kIo && error.kind() != ErrorKind::kCorrupt) throw;
      add(where + error.what(), error.kind());
      return false;
    }
  }
};

}  // namespace penstock
