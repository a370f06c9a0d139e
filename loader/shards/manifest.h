// Manifest: manifest.json of a split, what it promises, and how two splits of a data set fit together.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "augment/transform.h"
#include "loader/files/field.h"
#include "loader/files/files.h"

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
    std::string sha256 = {};  // of the file, 64 hex digits; "" in manifests of earlier versions

    FileFacts facts() const { return {byte_count, xxh3, sha256}; }
    void set_facts(const FileFacts& facts) { byte_count = facts.byte_count, xxh3 = facts.xxh3, sha256 = facts.sha256; }
  };

  static constexpr int kFormatVersion = 1;

  std::string split;          // train, test, all
  std::string source;         // the source's spec, `digits(count=100)`
  int64_t shuffle_seed = -1;  // seed of the order inside shards; negative: sorted by id
  uint64_t sample_count = 0;
  uint64_t skipped_count = 0;            // pictures of the source that were left out because they are broken
  std::string storage = "encode=auto";   // how pictures were stored, as in `encode=coef,resize=256,quality=90`
  uint64_t transcoded_count = 0;         // JPEGs that come back with the same coefficients in other bytes
  uint64_t warned_count = 0;             // JPEGs about whose header libjpeg-turbo warns, without a change to a pixel
  std::vector<std::string> class_names;  // none: samples have no class, and the label -1
  std::vector<uint64_t> class_counts;    // one entry per class: its samples
  std::vector<FieldType> fields = {};    // what samples have besides, sorted by name
  int channels = 1;                      // channels of decoded pictures: 1 only when every picture is grey
  PixelType pixels = PixelType::kU8;     // of decoded pictures
  std::optional<Extent> extent;          // set when all pictures have one size
  DataStatistics statistics;
  std::vector<Shard> shards;

  /// Whether a sample may have this label.
  bool has_label(int64_t label) const;
  std::string class_name(int64_t label) const;  ///< "" for -1. Requires has_label(label).
  std::string label_range() const;              ///< `0 to 9`, for messages.
};

/// `400 samples with checksum 3f2a01bc`: equal for data sets with equal class names and equal bytes in all shards.
std::string identity_of(const Manifest& manifest);

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

}  // namespace penstock
