// FarOutput: where a packing works whose output is an address, and how its shards get there.
#pragma once

#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include "loader/shards/manifest.h"

namespace penstock::detail {

/// Shards are written to a folder of this machine, sent, and removed; the manifest is sent last. A set that is there
/// is replaced: its manifest is removed before the first shard is sent, so that nobody reads old and new shards
/// together, and those of its shards that the new manifest does not name at the end.
/// Errors: those of Files::upload(); config_error where the folder is another user's. Thread-safety: send() may be
/// called on any thread.
class FarOutput {
 public:
  /// `folder`: OUTPUT/<split>, an address.
  explicit FarOutput(std::filesystem::path folder);
  /// Removes staging() if nothing is in it.
  ~FarOutput();
  FarOutput(const FarOutput&) = delete;
  FarOutput& operator=(const FarOutput&) = delete;

  /// A folder for this output in that of temporary files (TMPDIR), which a packing that was killed leaves for the next.
  const std::filesystem::path& staging() const { return staging_; }
  bool has(const Manifest::Shard& entry) const;
  /// Sends a shard, unless it is there already.
  void send(const std::filesystem::path& file, const Manifest::Shard& entry);
  /// Sends what else is in the local folder of the split: the list of skipped pictures, then the manifest.
  void publish(const std::filesystem::path& local);

 private:
  void begin_to_replace();
  void send_text(const std::filesystem::path& file);

  std::filesystem::path folder_, staging_;
  std::once_flag has_begun_;
  std::vector<std::string> replaced_;  // files of the set that was there
};

}  // namespace penstock::detail
