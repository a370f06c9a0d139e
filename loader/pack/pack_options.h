// PackOptions: what pack() is asked for, and what can be said against it before anything is read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "loader/shards/storage.h"

namespace penstock {

/// One of the parts of a data set that several calls of pack() make, on any machines that see OUTPUT.
struct PackPart {
  int index = 0;
  /// The part has the shards index, index + count, ... of shard_count, of one source that all parts read. 0: it has
  /// rows of its own, which no other part sees: all of `shard_count` shards and of the source. Ids then begin at
  /// index * 2^32, so that they differ from those of all other parts.
  int count = 1;
  /// With count 0: the attempt's name, so that a task may be tried twice, also at the same time. Letters, digits, `_`
  /// and `-`.
  std::string attempt = {};

  bool has_own_rows() const { return count == 0; }
  uint64_t first_id() const { return has_own_rows() ? static_cast<uint64_t>(index) << 32 : 0; }
};

struct PackOptions {
  std::string source = "digits";                        ///< A source spec: `mnist`, `digits(count=12000,size=28)`.
  std::filesystem::path input = {};                     ///< Folder of the foreign data set.
  std::vector<std::filesystem::path> more_inputs = {};  ///< Further ones of this source, whose samples come after it.
  std::string split = "train";                          ///< train, test or all.
  std::filesystem::path output;                         ///< The data set: OUTPUT/<split>/ is written.
  int shard_count = 8;
  int64_t shuffle_seed = -1;  ///< Seed of the order inside shards; negative: the source's order.
  int jobs = 0;               ///< Threads; 0: one per core.
  bool force = false;         ///< Replace an existing OUTPUT/<split>, in one step, once the new one is complete.
  /// Splits that the same call packs after this one: their classes do not count, because they are replaced.
  std::vector<std::string> packed_next = {};
  bool skip_corrupt = false;  ///< Leave broken pictures out and count them, instead of failing.
  StorageOptions storage = {};
  /// Only this part is packed, for merge_parts(); see loader/pack/part.h.
  std::optional<PackPart> part = {};
  /// A file with the codebook for coefficients (write_codebook()). Empty: one is trained on pictures of the source.
  std::filesystem::path codebook = {};
};

/// The file in a split's folder that lists the pictures which were left out of it.
constexpr const char* kSkippedFile = "skipped.jsonl";

/// Throws what pack() would throw for wrong options, or an output that is in the way.
void check_pack_options(const PackOptions& options);

namespace detail {

/// Throws config_error when the source gives raw pixels and the options ask for something else than storing these.
void check_raw_source(const StorageOptions& storage, PixelType pixels, const std::string& name);
/// Throws config_error when no coefficients would be stored, so that the codebook in `file` would not be used.
void check_codebook_is_used(const StorageOptions& storage, const std::filesystem::path& file);
/// The options as the manifest records them.
std::string encoding_text(const StorageOptions& storage);

}  // namespace detail
}  // namespace penstock
