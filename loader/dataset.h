// Dataset: a manifest and its shards, as one random-access sequence of encoded samples.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "augment/transform.h"
#include "loader/shard.h"

namespace penstock {

/// manifest.json of one split, as read. docs/FORMAT.md lists the keys.
struct Manifest {
  struct Shard {
    std::string file;  // a name inside the split's folder
    uint64_t sample_count = 0;
    uint64_t byte_count = 0;  // of the file
    std::string xxh3;         // XXH3-128 of the file, 32 hex digits
  };

  static constexpr int kFormatVersion = 1;

  std::string split;          // train, test, all
  std::string source;         // the source's spec, `digits(count=100)`
  int64_t shuffle_seed = -1;  // of the order inside shards; negative: by id
  uint64_t sample_count = 0;
  uint64_t skipped_count = 0;           // pictures of the source that were left out because they are broken
  std::string storage = "encode=auto";  // how pictures were stored, `encode=coef,resize=256,quality=90`
  uint64_t transcoded_count = 0;        // JPEGs that come back with the same coefficients in other bytes
  std::vector<std::string> class_names;
  std::vector<uint64_t> class_counts;  // samples, a class
  int channels = 1;                    // of decoded pictures: 1 only when every picture is grey
  std::optional<Extent> extent;        // set when all pictures have one size
  DataStatistics statistics;
  std::vector<Shard> shards;
};

/// Throws io_error or corrupt_error naming file, key and value: a shard outside the folder, counts that disagree, a
/// foreign format version.
Manifest read_manifest(const std::filesystem::path& split_folder);
void write_manifest(const std::filesystem::path& split_folder, const Manifest& manifest);

/// Every `world_size`-th shard from `rank` on: what a rank with shards of its own opens.
struct ShardShare {
  int rank = 0, world_size = 1;
};

/// All samples of one split. Index i runs over shard 0, then shard 1, ...; also with a share of the shards, whose
/// samples alone may be asked for then.
///
/// Errors: opening checks manifest and every shard's structure and labels; sample bytes are checked by the CRC the
/// first time that this object hands them out (checked_at), which costs one bit per sample. A file that is cut short
/// afterwards, or a disk error, is an io_error (ShardReader). Thread-safety: const members from any thread.
class Dataset {
 public:
  /// `folder` is a split's folder (it holds manifest.json) or a data set (then FOLDER/<split>).
  static std::shared_ptr<const Dataset> open(const std::filesystem::path& folder, const std::string& split = "train",
                                             ShardShare share = {});
  ~Dataset();

  uint64_t size() const;  ///< Of all shards, also of those that are not opened.
  int shard_count() const;
  uint64_t shard_begin(int shard) const;  ///< Index of its first sample; shard_begin(shard_count()) == size().
  const Manifest& manifest() const;
  const std::filesystem::path& folder() const;

  /// Requires index < size(). O(log shards), no copy. Throws bug_error for a shard that was not opened.
  Sample at(uint64_t index) const;
  Sample checked_at(uint64_t index) const;  ///< at(), and the CRC when this object has not checked it yet.
  std::optional<Sample> example() const;    ///< The first sample of those opened; none when there is none.
  /// For whoever reads a sample's bytes: after that, or by read_from(). As ShardReader's of that name.
  void check_read(uint64_t index) const;
  void check_file(uint64_t index) const;
  /// Throws io_error when a shard has become shorter than it was when it was opened. Asks the file system, for each
  /// shard.
  void check_files() const;
  /// "<shard file>: sample 35 (id 24531) at byte 8000", for messages.
  std::string where(uint64_t index) const;

 private:
  Dataset(const std::filesystem::path& split_folder, ShardShare share);
  struct State;
  struct Place;
  Place place_of(uint64_t index) const;
  std::unique_ptr<State> state_;
};

}  // namespace penstock
