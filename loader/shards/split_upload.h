// SplitUpload: the files of a split that is written to an address, and the folder in which they are made.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <mutex>
#include <set>
#include <string>

#include "loader/shards/manifest.h"

namespace penstock::detail {

/// Shards are written to a folder of this machine, sent, and removed; the manifest is sent last. A set that is there
/// is replaced: its manifest is removed before the first shard is sent, so that nobody reads old and new shards
/// together, and those of its shards that the new manifest does not name at the end. Meanwhile their names are in the
/// object `replaced.txt`, one per line: where that packing is killed, the next one removes them.
/// Errors: those of Files::upload(); config_error where the folder is another user's. Thread-safety: send() may be
/// called on any thread.
class SplitUpload {
 public:
  /// `folder`: OUTPUT/<split>, an address. Without `replaces`, a set that is there when the first shard is sent is a
  /// config_error, and stays.
  SplitUpload(std::filesystem::path folder, bool replaces);
  /// Removes staging() if nothing is in it.
  ~SplitUpload();
  SplitUpload(const SplitUpload&) = delete;
  SplitUpload& operator=(const SplitUpload&) = delete;

  /// A folder for this output in that of temporary files (TMPDIR), which a packing that was killed leaves for the next.
  const std::filesystem::path& staging() const { return staging_; }
  bool has(const Manifest::Shard& entry) const;
  /// Sends a shard, unless it is there already. Gives up within 100 ms once `stopped` is true: io_error.
  void send(const std::filesystem::path& file, const Manifest::Shard& entry, const std::atomic<bool>& stopped);
  /// Sends what else is in the local folder of the split: the file `list`, if it is there, then the manifest. Calls
  /// `on_wait` every 100 ms of a wait; what that throws ends it and is thrown.
  void publish(const std::filesystem::path& local, const std::string& list, const std::function<void()>& on_wait);

 private:
  void begin_to_replace();
  void note_replaced();
  void send_text(const std::filesystem::path& file);

  std::filesystem::path folder_, staging_;
  const bool replaces_;
  std::once_flag has_begun_;
  bool is_replacing_ = false;       // whether there was a set, or what a killed packing has left of one
  std::set<std::string> replaced_;  // its files
};

}  // namespace penstock::detail
