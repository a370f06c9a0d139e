// The folder of a run: what may be written where, and files that appear whole or not at all.
#pragma once

#include <filesystem>
#include <string>

namespace penstock {

/// runs/<arch>-<mode>-<year><month><day>-<hour><minute><second>.
std::filesystem::path default_run_folder(const std::string& arch, const std::string& mode);

/// Whether OUT may become a run's folder: it is not there, is empty, or holds an earlier run (options.json). Throws
/// config_error otherwise: a folder with somebody's files in it is not written into.
void check_run_folder(const std::filesystem::path& out);

/// summary.json's format. Summaries of another one are not compared with.
constexpr int kSummaryFormat = 2;

/// Locks a folder that exists, until the descriptor that is returned is closed; -1 where the file system has no locks.
/// Throws config_error when another process holds the lock: `--out DIR: another <what> is writing into it; ...`.
int lock_run_folder(const std::filesystem::path& out, const std::string& what);

/// A run's folder, from its first file to its last: a second run into it is refused meanwhile. The lock goes with the
/// process that holds it; file systems without locks have none.
class RunFolder {
 public:
  /// Makes OUT ready: an earlier run's files are removed, unless `is_resumed`. Throws config_error as
  /// check_run_folder() and when another run writes into it, io_error.
  RunFolder(const std::filesystem::path& out, bool is_resumed);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

 private:
  int lock_;
};

}  // namespace penstock
