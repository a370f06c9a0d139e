// Dataset: a manifest and its shards, as one random-access sequence of encoded samples.
//
// Lives here: a packed data set: one shard, its writer, the manifest, and all shards of a split as one sequence.
// Not here: the order of samples (loader/order), pixels (loader/codecs), and the making of a data set (loader/pack).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "augment/transform.h"
#include "loader/shards/shard.h"

namespace penstock {

/// manifest.json of one split, as read. docs/FORMAT.md lists the keys.
struct Manifest {
  struct Shard {
    std::string file;  // a name inside the split's folder
    uint64_t sample_count = 0;
    uint64_t byte_count = 0;  // size of the file
    std::string xxh3 = {};    // XXH3-128 of the file, 32 hex digits
    // Id of the first sample, by which opening notices that shards were exchanged; nothing for a shard without samples,
    // and in manifests of earlier versions.
    std::optional<uint64_t> first_id = {};
  };

  static constexpr int kFormatVersion = 1;

  std::string split;          // train, test, all
  std::string source;         // the source's spec, `digits(count=100)`
  int64_t shuffle_seed = -1;  // seed of the order inside shards; negative: sorted by id
  uint64_t sample_count = 0;
  uint64_t skipped_count = 0;           // pictures of the source that were left out because they are broken
  std::string storage = "encode=auto";  // how pictures were stored, as in `encode=coef,resize=256,quality=90`
  uint64_t transcoded_count = 0;        // JPEGs that come back with the same coefficients in other bytes
  uint64_t warned_count = 0;            // JPEGs about whose header libjpeg-turbo warns, without a change to a pixel
  std::vector<std::string> class_names;
  std::vector<uint64_t> class_counts;  // one entry per class: its samples
  int channels = 1;                    // channels of decoded pictures: 1 only when every picture is grey
  std::optional<Extent> extent;        // set when all pictures have one size
  DataStatistics statistics;
  std::vector<Shard> shards;
};

/// Throws io_error, or corrupt_error naming file, key and value: for a shard outside the folder, counts that disagree,
/// or a foreign format version.
Manifest read_manifest(const std::filesystem::path& split_folder);
void write_manifest(const std::filesystem::path& split_folder, const Manifest& manifest);

/// Whether there is a FOLDER/manifest.json. Throws io_error if this cannot be found out, because a folder may not be
/// entered or a link leads back to itself.
bool has_manifest(const std::filesystem::path& folder);
/// What is wrong if the manifest in `split_folder`, which has the name of split `name`, is that of another split; "" if
/// nothing is.
std::string split_problem(const std::filesystem::path& split_folder, const Manifest& manifest, const std::string& name);

/// What is wrong if labels of `manifest`, that of the split in `folder`, do not stand for the classes of another split
/// of the data set; "" if nothing is.
std::string class_problem(const std::filesystem::path& folder, const Manifest& manifest,
                          const std::filesystem::path& other_folder, const Manifest& other);
/// The same for a split test and the splits train and all beside it, so far as they are there and can be read.
std::string class_problem(const std::filesystem::path& split_folder, const Manifest& manifest);

/// The split that `name` means: val, valid and validation are other names of test.
std::string split_of_name(const std::string& name);

/// The shards that a rank with shards of its own opens: every `world_size`-th one from `rank` on.
struct RankShards {
  int rank = 0, world_size = 1;
};

/// All samples of one split. Index i counts through shard 0, then shard 1, and so on. With a share of the shards the
/// indices are the same, but only samples of these shards may be asked for.
///
/// Errors: opening checks the manifest and every shard's structure and labels. The bytes of a sample are checked by
/// their CRC the first time that this object hands them out (checked_at), for which it keeps one bit per sample. A file
/// that is cut short later, or a disk error, is an io_error (ShardReader). Thread-safety: const members may be called
/// on any thread.
class Dataset {
 public:
  /// `folder` is a split's folder (it holds manifest.json), or a data set, of which FOLDER/<split> is opened. Throws
  /// corrupt_error if the manifest of FOLDER/<split> is that of another split, and config_error for a split test whose
  /// classes are not those of the split train or all beside it: its labels would mean other classes.
  static std::shared_ptr<const Dataset> open(const std::filesystem::path& folder, const std::string& split = "train",
                                             RankShards share = {});
  /// The split in `split_folder`, whatever is beside it.
  static std::shared_ptr<const Dataset> open_alone(const std::filesystem::path& split_folder, RankShards share = {});
  ~Dataset();

  uint64_t size() const;  ///< Samples of all shards, also of those that are not open.
  int shard_count() const;
  uint64_t shard_begin(int shard) const;  ///< The index of its first sample; shard_begin(shard_count()) == size().
  const Manifest& manifest() const;
  const std::filesystem::path& folder() const;

  /// Requires index < size(). O(log shards), no copy. Throws bug_error for a shard that was not opened.
  Sample at(uint64_t index) const;
  Sample checked_at(uint64_t index) const;  ///< As at(), and checks the CRC unless this object has done so.
  std::optional<Sample> example() const;    ///< The first sample of the open shards, if there is one.
  /// To be called after reading a sample's bytes, unless read_from() does it. They do what ShardReader's functions of
  /// these names do.
  void check_read(uint64_t index) const;
  void check_file(uint64_t index) const;
  /// Throws io_error when a shard has become shorter since it was opened. Asks the file system about each shard.
  void check_files() const;
  /// "<shard file>: sample 35 (id 24531) at byte 8000", for messages.
  std::string where(uint64_t index) const;

 private:
  Dataset(const std::filesystem::path& split_folder, RankShards share);
  struct State;
  struct ShardRow;
  ShardRow place_of(uint64_t index) const;
  std::unique_ptr<State> state_;
};

}  // namespace penstock
