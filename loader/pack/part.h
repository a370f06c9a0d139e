// Part: what one of several pack() calls leaves in OUTPUT/.<split>.parts for merge_parts().
//
//   OUTPUT/.train.parts/part-3.host-0/   shards, manifest.json, skipped.jsonl, part.json: one attempt at part 3
//   OUTPUT/.train.parts/part-3.json      = part-3.host-0/part.json, linked: the attempt that counts
//   OUTPUT/.train.parts/codebook-<key>   trained by whichever part came first
//
// An attempt becomes visible by its link, which is made last and never replaces another (on a file system without hard
// links: a file that is created only where there is none). So a part may be tried twice
// at the same time: the bytes of both are equal, and the second one removes its own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "loader/pack/pack_options.h"
#include "loader/pack/partial.h"

namespace penstock::detail {

/// The content of a part.json.
struct PartFile {
  std::string key;       // a hash of all that parts of one data set have in common
  std::string codebook;  // a hash of it; "": none
  int index = 0, count = 1;
  std::string folder;  // the attempt's, inside of parts_folder()
  uint64_t skipped_count = 0;
  std::vector<uint64_t> tally;  // Tally::numbers() of all its shards
};

inline constexpr const char* kPartFile = "part.json";

std::filesystem::path parts_folder(const std::filesystem::path& output, const std::string& split);
/// The folder of the attempt `partial`, after it is published.
std::string attempt_name(const Partial& partial);

/// Throws io_error, and corrupt_error for what write_part() does not write.
PartFile read_part(const std::filesystem::path& path);

/// Where a packing with these options works: for a part in a new attempt, or in one that was interrupted on a machine
/// of this name. Null: the part is finished. Throws config_error where the part that is there is one of another data
/// set, unless options.force is set, with which it is removed.
/// `key` is the part's, `codebook` the hash of options.codebook ("": none given). `empty`: of the shape that tallies of
/// shards have.
std::unique_ptr<Partial> open_partial(const PackOptions& options, const std::string& key, const std::string& codebook,
                                      const Tally& empty);

/// Publishes the attempt, in which shards and manifest are, and makes it the one that counts unless another one does
/// already.
void publish_part(Partial& partial, const PackOptions& options, PartFile part);

/// A hash as text; "" of nothing.
std::string hash_text(std::span<const uint8_t> bytes);

}  // namespace penstock::detail
