// merge_parts(): makes one split of the parts that several calls of pack() have left.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "loader/pack/tally.h"
#include "loader/shards/manifest.h"

namespace penstock {

struct MergeOptions {
  std::filesystem::path output;
  std::string split = "train";
  bool force = false;  ///< Replace an existing OUTPUT/<split>.
  /// The attempts that count, in parts with rows of their own: names of folders in OUTPUT/.<split>.parts. Empty: every
  /// part that has its link there.
  std::vector<std::string> attempts = {};
};

/// Writes OUTPUT/<split> from the parts in OUTPUT/.<split>.parts, which it removes then. No picture is read: the shards
/// are linked, or copied where the file system has no hard links.
///
/// Determinism: the bytes are those that one pack() would have written, for any number of parts. Parts with rows of
/// their own give their shards in order of the parts' numbers.
/// Crash-safety: that of pack(). After a merge that was killed, another one begins anew; one that fails leaves the
/// parts.
/// Errors: config_error for parts that do not belong together (of different sets, one that lacks, one that is there
/// twice), and for what pack() would throw about OUTPUT/<split>; io_error; corrupt_error for a part that is not what
/// pack() wrote.
void merge_parts(const MergeOptions& options);

/// The splits in `output` that have parts: train, all, test, in this order.
std::vector<std::string> splits_with_parts(const std::filesystem::path& output);

namespace detail {

/// "shard-00003-of-00008.safetensors".
std::string shard_file(size_t shard, int shard_count);

/// What the manifest says about all samples together. Throws corrupt_error where there are none, unless `may_be_empty`.
void set_totals(Manifest& manifest, const Tally& total, bool may_be_empty);

}  // namespace detail
}  // namespace penstock
