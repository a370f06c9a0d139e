// ClassTable: compares the classes of a source with those of the splits that are packed already.
#include "loader/pack/class_table.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/strict_json.h"
#include "core/text.h"
#include "loader/shards/dataset.h"
#include "loader/shards/field_mismatch.h"

namespace penstock::detail {
namespace {

namespace fs = std::filesystem;

struct PackedSplit {
  std::string name;
  fs::path folder;
  Manifest manifest;
};

/// The other splits that are packed in `output` and stay there, those that are trained on first.
std::vector<PackedSplit> other_splits(const fs::path& output, const std::string& split,
                                      const std::vector<std::string>& packed_next) {
  std::vector<PackedSplit> others;
  for (const std::string name : {"train", "all", "test"}) {
    const bool is_next = std::find(packed_next.begin(), packed_next.end(), name) != packed_next.end();
    if (name == split || is_next || !has_manifest(output / name)) continue;
    others.push_back({name, output / name, read_manifest(output / name)});
  }
  return others;
}

/// `"d"`, or `"d" (and 2 more)`: the names that are not among `known`; "" if all are.
std::string missing_text(const std::vector<std::string>& names, const std::map<std::string, int64_t>& known) {
  const auto is_missing = [&](const std::string& name) { return !known.contains(name); };
  const auto first = std::find_if(names.begin(), names.end(), is_missing);
  if (first == names.end()) return "";
  const auto more_count = std::count_if(first + 1, names.end(), is_missing);
  return concat(in_quotes(*first), more_count > 0 ? concat(" (and ", more_count, " more)") : "");
}

std::map<std::string, int64_t> labels_of(const std::vector<std::string>& names) {
  std::map<std::string, int64_t> labels;
  for (size_t label = 0; label < names.size(); ++label) labels.emplace(names[label], static_cast<int64_t>(label));
  return labels;
}

/// Throws config_error where the source's classes cannot have the labels that `other` gives them.
void check_classes(const std::vector<std::string>& names, const fs::path& folder, const std::string& split,
                   const PackedSplit& other) {
  const auto& known = other.manifest.class_names;
  const std::string unknown = missing_text(names, labels_of(known)), lacking = missing_text(known, labels_of(names));
  if (unknown.empty() && (lacking.empty() || split == "test")) return;
  const std::string fact = unknown.empty() ? concat("lacks class ", lacking, " of ", other.folder.string())
                                           : concat("class ", unknown, " is not among the ", known.size(),
                                                    " classes of ", other.folder.string());
  throw config_error(concat(folder.string(), ": ", fact, "; expected the same classes in all splits: remove ",
                            other.folder.string(), ", then pack ", split == "test" ? other.name : split,
                            " with every class, and then ", split == "test" ? split : other.name));
}

}  // namespace

void check_class_names(const std::vector<std::string>& names, const std::string& source) {
  std::set<std::string> seen;
  for (const auto& name : names) {
    const std::string written = utf8_text(name);
    if (!seen.insert(written).second)
      throw io_error(concat("source ", source, ": class name ", in_quotes(written), " occurs twice",
                            written == name ? "" : " after what is not UTF-8 has become U+FFFD",
                            "; expected names that differ"));
  }
}

int64_t ClassTable::label(const Source& source, uint64_t id) const {
  if (source_labels.empty()) return -1;
  const int64_t number = source.label(id);
  if (number >= 0 && static_cast<size_t>(number) < source_labels.size())
    return source_labels[static_cast<size_t>(number)];
  throw bug_error(concat(source.where(id), ": label is ", number, "; expected 0 to ", source_labels.size(), " - 1"));
}

ClassTable class_table(const std::vector<std::string>& source_names, const std::vector<FieldType>& fields,
                       const fs::path& output, const std::string& split, const std::vector<std::string>& packed_next) {
  std::vector<std::string> names;
  for (const auto& name : source_names) names.push_back(utf8_text(name));
  const auto others = other_splits(output, split, packed_next);
  for (const auto& other : others) {
    check_classes(names, output / split, split, other);
    auto problem = class_problem(other.folder, other.manifest, others[0].folder, others[0].manifest);
    if (problem.empty()) problem = field_mismatch(output / split, fields, other.folder, other.manifest.fields);
    if (!problem.empty()) throw config_error(problem);
  }
  ClassTable table{others.empty() ? names : others[0].manifest.class_names, {}};
  const auto labels = labels_of(table.names);
  for (const auto& name : names) table.source_labels.push_back(labels.at(name));
  return table;
}

std::vector<std::vector<uint64_t>> deal(const Source& source, const ClassTable& classes, size_t shard_count) {
  // The place of each class's next sample in the sorted list. Without classes, all samples are of one.
  std::vector<uint64_t> next(std::max<size_t>(classes.names.size(), 1));
  const uint64_t size = source.size();
  const auto place = [&](uint64_t id) -> uint64_t& {
    return next[static_cast<size_t>(std::max<int64_t>(classes.label(source, id), 0))];
  };
  for (uint64_t id = 0; id < size; ++id) ++place(id);
  uint64_t before = 0;
  for (auto& place : next) before += std::exchange(place, before);
  std::vector<std::vector<uint64_t>> members(shard_count);
  for (uint64_t id = 0; id < size; ++id) members[place(id)++ % shard_count].push_back(id);
  return members;
}

}  // namespace penstock::detail
