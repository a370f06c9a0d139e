// Dataset: a manifest and its shards, as one random-access sequence of encoded samples.
//
// Lives here: a packed data set: one shard, its writer, the manifest, and all shards of a split as one sequence.
// Not here: the order of samples (loader/order), pixels (loader/codecs), and the making of a data set (loader/pack).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "loader/shards/manifest.h"
#include "loader/shards/shard.h"

namespace penstock {

/// The split that `name` means: val, valid and validation are other names of test.
std::string split_of_name(const std::string& name);

/// The shards that a rank with shards of its own opens: every `world_size`-th one from `rank` on.
struct RankShards {
  int rank = 0, world_size = 1;
};

/// When the shards of a data set are opened. A shard that is opened when it is asked for is checked as one that is
/// opened at once, and what is wrong with it is then an error of that sample, in the same words.
enum class Opening {
  kAuto,       ///< At once, but not more than 2048 shards, shards of 33 million samples, or more bytes than memory.
  kAtOnce,     ///< All, in the order of their numbers.
  kWhenAsked,  ///< Each when one of its samples is first asked for. A file that is missing is not noticed before.
};

/// The value of a field in one sample: `bytes` are valid as long as this object or a copy of it lives.
struct HeldField {
  FieldBytes bytes = {};
  FileHold hold = {};
};

/// All samples of one split. Index i counts through shard 0, then shard 1, and so on. With a share of the shards the
/// indices are the same, but only samples of these shards may be asked for.
///
/// Errors: opening checks the manifest, and the structure and labels of every shard that is opened with it (Opening).
/// The bytes of a sample are checked by their CRC the first time that this object, or one that it is joined with, hands
/// them out (checked_at), for which an open shard has one bit per sample. A file
/// that is cut short later, or a disk error, is an io_error (ShardReader).
/// Memory: about 300 bytes per shard that is not open.
/// Thread-safety: const members may be called on any thread. To find a sample takes no lock once its shard is open.
class Dataset {
 public:
  /// `folder` is a split's folder (it holds manifest.json), or a data set, of which FOLDER/<split> is opened. Throws
  /// corrupt_error if the manifest of FOLDER/<split> is that of another split, and config_error for a split test whose
  /// classes are not those of the split train or all beside it: its labels would mean other classes.
  static std::shared_ptr<const Dataset> open(const std::filesystem::path& folder, const std::string& split = "train",
                                             RankShards share = {}, Opening opening = Opening::kAuto);
  /// The split in `split_folder`, whatever is beside it.
  static std::shared_ptr<const Dataset> open_alone(const std::filesystem::path& split_folder, RankShards share = {},
                                                   Opening opening = Opening::kAuto);
  /// The samples of several data sets, one after the other, as one. Their shards are shared with them; its folder is
  /// that of the first. Requires 1 or more. Throws config_error where they do not fit together (joined_manifest.h).
  static std::shared_ptr<const Dataset> join(const std::vector<std::shared_ptr<const Dataset>>& parts);
  ~Dataset();

  uint64_t size() const;  ///< Samples of all shards, also of those that are not open.
  int shard_count() const;
  uint64_t shard_begin(int shard) const;  ///< The index of its first sample; shard_begin(shard_count()) == size().
  const Manifest& manifest() const;
  const std::filesystem::path& folder() const;
  /// The data sets of join(); of one that was opened, itself.
  struct Part {
    std::filesystem::path folder;
    uint64_t begin = 0, end = 0;  // indices

    std::string name() const;  ///< The folder, absolute where it is local, as records name the data set.
  };
  const std::vector<Part>& parts() const;

  /// Requires index < size(). O(log shards), no copy. Throws bug_error for a shard that was not opened.
  Sample at(uint64_t index) const;
  Sample checked_at(uint64_t index) const;  ///< As at(), and checks the CRC unless this object has done so.
  /// Fetches these samples before their shards, where they are far away: what is not there yet comes as ranges, and is
  /// handed out from memory until its shard is opened. Waits for them, at most 10 s. `on_wait`, if there is one, is
  /// called every 100 ms and may throw, which ends it. Errors: what goes wrong here is met by who asks for the sample.
  /// Memory: ShardPart::kMostBytes per process. Requires indices < size().
  void fetch_rows(const std::vector<uint64_t>& indices, const std::function<void()>& on_wait = {}) const;
  std::optional<Sample> example() const;          ///< The first sample of this rank's shards, if there is one.
  std::optional<uint64_t> example_index() const;  ///< Its index.
  /// The bytes of the field manifest().fields[number], whose CRC is checked the first time that this object hands them
  /// out. Requires index < size(); throws as at() does.
  HeldField field(uint64_t index, size_t number) const;
  /// How many shards can be held at a time, where they come from far away: at least as many as the room of their cache
  /// has of the largest ones. Unlimited where nothing needs a hold.
  uint64_t room_shards() const;
  /// The number of the field `name`. Throws config_error `<folder>: no field "name"; ...`.
  size_t field_number(const std::string& name) const;
  /// To be called after reading a sample's bytes, unless read_from() does it. They do what ShardReader's functions of
  /// these names do.
  void check_read(uint64_t index) const;
  void check_file(uint64_t index) const;
  /// Throws io_error when a shard has become shorter since it was opened. Asks the file system about each open shard.
  void check_files() const;
  /// Opens the shard unless it is open, and begins to read all of it. Throws what opening throws.
  void read_ahead(int shard) const;
  /// Gives the memory of a shard back that nobody needs soon; does nothing unless it is open. What is asked for all the
  /// same is read again. Returns whether it was open.
  bool drop(int shard) const;
  /// "<shard file>: sample 35 (id 24531) at byte 8000", for messages.
  std::string where(uint64_t index) const;

 private:
  Dataset();
  Dataset(const std::filesystem::path& split_folder, RankShards share, Opening opening);
  struct State;
  struct ShardRow;
  ShardRow place_of(uint64_t index) const;
  std::unique_ptr<State> state_;
};

}  // namespace penstock
