// Partial: the folder in which a packing works until it is complete, and what it remembers of finished shards.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "loader/pack/skipped.h"
#include "loader/pack/tally.h"
#include "loader/shards/dataset.h"

namespace penstock::detail {

/// A shard that is on the disk, and what the manifest and the list of skipped pictures need of it.
struct FinishedShard {
  Manifest::Shard entry;
  std::vector<SkippedPicture> skipped = {};
  uint64_t transcoded_count = 0, warned_count = 0;
  uint64_t unsure_count = 0, flat_polygon_count = 0;  // samples, polygons: CheckedFields
  Tally tally;
};

/// OUTPUT/.<split>.partial holds `split/` with the shards, which becomes OUTPUT/<split>, and one small JSON file per
/// finished shard (its state).
///
/// When a packing is killed, the folder stays, and the next packing with the same key goes on with it. When a packing
/// is given up (the destructor runs without publish()), the folder is removed, and OUTPUT too if it was made for this
/// packing.
/// Errors: io_error, also when another process is packing into the same folder.
/// Thread-safety: finish() may be called on any thread, for different shards.
class Partial {
 public:
  /// What the constructor throws where another process is packing into the folder.
  struct Busy : Error {
    using Error::Error;
  };

  /// `key` tells whether an earlier packing's shards are the ones wanted now. It is a hash of the source, its
  /// fingerprint and all options.
  Partial(const std::filesystem::path& output, const std::string& split, std::string key, Tally empty);
  ~Partial();
  Partial(const Partial&) = delete;
  Partial& operator=(const Partial&) = delete;

  std::filesystem::path folder() const { return folder_ / "split"; }
  /// What folder() becomes.
  const std::filesystem::path& final_folder() const { return final_; }
  /// Returns what an earlier packing finished, one entry per shard, and removes everything else that it left.
  /// `is_there` says whether a shard is where it was put, which is by default folder().
  using IsThere = std::function<bool(const Manifest::Shard& entry)>;
  std::vector<std::optional<FinishedShard>> take_over(const std::vector<std::string>& shard_files,
                                                      const IsThere& is_there = {});
  void finish(size_t shard, const FinishedShard& finished);
  /// Makes the folder OUTPUT/<split> in one step; with `force` also where that exists. The states are removed first: if
  /// a kill leaves the old data set here after the exchange, no state may call its shards finished.
  void publish(bool force);

 private:
  void lock();
  std::filesystem::path state_path(size_t shard) const;
  std::optional<FinishedShard> read_state(size_t shard, const std::string& file) const;
  bool is_here(const Manifest::Shard& entry) const;

  std::filesystem::path output_, folder_, final_;
  std::string key_;
  Tally empty_;  // of the shape that those of shards have
  bool made_output_ = false;
  int lock_ = -1;
};

/// Renames `from` to `to`, for file systems that cannot exchange two folders in one step. The old content of `to` is
/// kept at `aside` meanwhile, and is put back when that fails. Returns what rename() does.
int replace_in_two_steps(const std::filesystem::path& from, const std::filesystem::path& to,
                         const std::filesystem::path& aside);

}  // namespace penstock::detail
