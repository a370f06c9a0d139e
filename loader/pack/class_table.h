// ClassTable: the classes of a data set, which are the same in all its splits, and their labels.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "loader/sources/source.h"

namespace penstock::detail {

struct ClassTable {
  std::vector<std::string> names;      // as the manifest will have them, in order of label
  std::vector<int64_t> source_labels;  // one entry per class of the source: its label

  /// The label of sample `id`; -1 where the source has no classes. Throws bug_error for a class that it does not have.
  int64_t label(const Source& source, uint64_t id) const;

  bool operator==(const ClassTable&) const = default;
};

/// Throws io_error when two class names of a source are equal as the manifest will have them. What is not UTF-8 in a
/// folder's name becomes U+FFFD there, so that two names may become one.
void check_class_names(const std::vector<std::string>& names, const std::string& source);

/// The table for a source with these classes, which is to be packed into OUTPUT/<split>. Where another split is packed
/// there already, its table counts, and the classes of the source are found in it by name. The splits in `packed_next`
/// do not count, because the same call replaces them. `fields` are those of the source.
///
/// Errors: config_error where the source has a class that the other split lacks, or where field_mismatch() says that a
/// field differs from that of the other split. Except for split test also where the
/// source lacks a class, because a model would get an output for it that is never trained. What read_manifest() throws.
/// Requires names that check_class_names() passes.
ClassTable class_table(const std::vector<std::string>& source_names, const std::vector<FieldType>& fields,
                       const std::filesystem::path& output, const std::string& split,
                       const std::vector<std::string>& packed_next);

/// Deals the samples, sorted by class and then by id, to the shards in turn. The counts of a class, and the totals, of
/// any two shards differ by one at most. Ids ascend inside each shard.
std::vector<std::vector<uint64_t>> deal(const Source& source, const ClassTable& classes, size_t shard_count);

}  // namespace penstock::detail
