// Partial: the folder in which a packing works until it is complete, and what it remembers of finished shards.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "loader/dataset.h"
#include "loader/detail/tally.h"

namespace penstock::detail {

/// A shard that is on the disk, and what the manifest needs of it.
struct FinishedShard {
  Manifest::Shard entry;
  uint64_t skipped_count = 0, transcoded_count = 0;
  Tally tally;
};

/// OUTPUT/.<split>.partial: `split/` with the shards, which becomes OUTPUT/<split>, and one small JSON file a finished
/// shard (its state).
///
/// A packing that is killed leaves it behind, and the next one with the same key goes on with it. One that is given up
/// (the destructor without publish()) removes it, and OUTPUT too when it was made for it. Errors: io_error, also when
/// another process is packing into the same folder. Thread-safety: finish() from any thread, for different shards.
class Partial {
 public:
  /// `key` tells whether an earlier packing's shards are the ones wanted now: hash of source, its fingerprint and all
  /// options.
  Partial(const std::filesystem::path& output, const std::string& split, std::string key, size_t class_count);
  ~Partial();
  Partial(const Partial&) = delete;
  Partial& operator=(const Partial&) = delete;

  std::filesystem::path folder() const { return folder_ / "split"; }
  /// What an earlier packing finished, by shard; everything else that it left is removed.
  std::vector<std::optional<FinishedShard>> take_over(const std::vector<std::string>& shard_files);
  void finish(size_t shard, const FinishedShard& finished);
  /// Makes it OUTPUT/<split>, in one step; with `force` also where that exists. The states go first: where a kill finds
  /// the old data set exchanged to here, nothing may call its shards finished ones.
  void publish(bool force);

 private:
  void lock();
  std::filesystem::path state_path(size_t shard) const;
  std::optional<FinishedShard> read_state(size_t shard, const std::string& file) const;

  std::filesystem::path output_, folder_, final_;
  std::string key_;
  size_t class_count_;
  bool made_output_ = false;
  int lock_ = -1;
};

/// Renames `from` to `to`, whose old content is kept at `aside` meanwhile and put back when that fails: for file
/// systems that cannot exchange two folders in one step. Returns what rename() does.
int replace_in_two_steps(const std::filesystem::path& from, const std::filesystem::path& to,
                         const std::filesystem::path& aside);

}  // namespace penstock::detail
