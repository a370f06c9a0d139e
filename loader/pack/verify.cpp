// verify(): checks everything that a split's folder promises.
#include "loader/pack/verify.h"

#include <algorithm>
#include <iomanip>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "core/error.h"
#include "core/parallel.h"
#include "core/text.h"
#include "loader/codecs/codec.h"
#include "loader/files/checksum.h"
#include "loader/files/files.h"
#include "loader/files/read_from.h"
#include "loader/pack/pack.h"
#include "loader/pack/packed_fields.h"
#include "loader/pack/tally.h"
#include "loader/shards/dataset.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

/// What was found in one shard.
struct Finding {
  Problems problems;
  detail::Tally tally;
  std::vector<uint64_t> ids;
};

void check_fields(const ShardReader& shard, size_t row, const Manifest& manifest, Finding& finding) {
  const Sample sample = shard.at(row);
  const bool lies = sample.orientation > 4;  // height and width change places
  const int height = lies ? sample.extent.width : sample.extent.height;
  const int width = lies ? sample.extent.height : sample.extent.width;
  std::vector<FieldBytes> values;
  bool are_whole = true;
  for (size_t number = 0; number < manifest.fields.size(); ++number) {
    are_whole &= finding.problems.passes("", [&] { shard.check_field_crc(row, number); });
    are_whole &= finding.problems.passes(shard.where(row) + ": ", [&] {
      const auto& type = manifest.fields[number];
      const FieldBytes bytes = shard.field(row, number);
      check_field_value(type, bytes, height, width);
      values.push_back(bytes);
      if (type.is_variable()) finding.tally.add_field(number, bytes.size() / type.entry_bytes());
    });
  }
  if (are_whole)
    finding.problems.passes(shard.where(row) + ": ",
                            [&] { detail::check_entries(manifest.fields, values, height, width); });
}

void check_sample(const ShardReader& shard, size_t row, const Manifest& manifest, DecodeScratch& scratch,
                  Finding& finding) {
  const Sample sample = shard.at(row);
  finding.ids.push_back(sample.id);
  try {
    shard.check_crc(row);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kCorrupt) throw;  // the file cannot be read: there is no next sample
    finding.problems.add(error.what());
    return;
  }
  if (!manifest.has_label(sample.label)) {
    finding.problems.add(concat(shard.where(row), ": label is ", sample.label, "; expected ", manifest.label_range()));
    return;
  }
  check_fields(shard, row, manifest, finding);
  const auto decode = [&] {
    const Region whole{0, 0, sample.extent.width, sample.extent.height};
    const DecodeRequest request{.region = whole, .channels = sample.extent.channels};
    const Codec& codec = codec_for(sample.encoding);
    finding.tally.add(sample.label, codec.decode(sample, request, scratch));
    codec.check_further(sample, scratch);
  };
  finding.problems.passes(shard.where(row) + ": ", decode);
  shard.check_read(row);
}

/// Checks the samples first, because they have names, and then the file as a whole, which finds every other bit.
void check_shard_whole(const fs::path& path, const Manifest::Shard& entry, const Manifest& manifest, Finding& finding) {
  auto& problems = finding.problems;
  problems.passes("", [&] {
    const ShardReader shard(path, manifest.fields, entry.facts());
    const FileHold held = shard.hold();
    DecodeScratch scratch;
    for (size_t row = 0; row < shard.size(); ++row) check_sample(shard, row, manifest, scratch, finding);
    if (shard.size() != entry.sample_count) {
      problems.add(concat(path.string(), ": ", shard.size(), " samples; expected ", entry.sample_count,
                          ", as the manifest says"));
    }
  });
  const bool samples_are_whole = problems.count == 0;
  if (!samples_are_whole && problems.is_files_only()) return;  // the whole file would give the same line again
  problems.passes("", [&] {
    const auto file = files_of(path).map(path, entry.facts());
    const FileHold held(*file);
    if (file->bytes().size() != entry.byte_count) {
      throw corrupt_error(concat(path.string(), ": ", file->bytes().size(), " bytes; expected ", entry.byte_count,
                                 ", as the manifest says"));
    }
    std::string found;
    read_from(*file, [&] { found = detail::sum_of(file->bytes(), entry.facts()); });
    if (found == entry.facts().sum()) return;
    throw corrupt_error(concat(
        path.string(), ": ", entry.facts().sum_name(), " is ", found, ", the manifest says ", entry.facts().sum(),
        samples_are_whole ? "; every sample is as packed, so the change is in the header or the padding"
                          : "; what changed is named above",
        "; pack it again"));
  });
}

/// All digits, by which two numbers differ.
template <class Number>
std::string exact(Number number) {
  std::ostringstream text;
  text << std::setprecision(std::numeric_limits<double>::max_digits10) << number;
  return text.str();
}

std::string extent_text(const std::optional<Extent>& extent) {
  return extent ? concat("[", extent->height, ",", extent->width, ",", extent->channels, "]") : "null";
}

/// Compares the sum of all shards with the manifest. Only for whole shards, because otherwise the numbers disagree for
/// known reasons.
void check_totals(const fs::path& folder, const Manifest& manifest, const detail::Tally& total,
                  std::vector<uint64_t> ids, Problems& problems) {
  const auto differs = [&](const std::string& key, const std::string& stated, const std::string& expected) {
    problems.add(concat((folder / "manifest.json").string(), ": ", key, " is ", stated, "; expected ", expected,
                        ", as the shards hold: pack them again"));
  };
  const auto compare = [&](const char* key, const auto& stated, const auto& expected) {
    for (size_t i = 0; i < expected.size(); ++i)
      if (stated[i] != expected[i]) return differs(concat(key, "[", i, "]"), exact(stated[i]), exact(expected[i]));
  };
  std::sort(ids.begin(), ids.end());
  const auto twin = std::adjacent_find(ids.begin(), ids.end());
  if (twin != ids.end()) problems.add(concat(folder.string(), ": id ", *twin, " occurs twice; expected every id once"));
  const auto statistics = total.statistics();
  compare("class_counts", manifest.class_counts, total.class_counts());
  for (size_t i = 0; i < manifest.fields.size(); ++i)
    if (const auto& type = manifest.fields[i]; total.field_most(i) != type.most)
      differs(concat("fields: ", in_quotes(type.name), ": most"), exact(type.most), exact(total.field_most(i)));
  if (total.channels() != manifest.channels) differs("channels", exact(manifest.channels), exact(total.channels()));
  if (total.pixels() != manifest.pixels)
    differs("pixels", pixel_type_name(manifest.pixels), pixel_type_name(total.pixels()));
  if (total.extent() != manifest.extent) differs("extent", extent_text(manifest.extent), extent_text(total.extent()));
  compare("mean", manifest.statistics.mean, statistics.mean);
  compare("deviation", manifest.statistics.deviation, statistics.deviation);
}

/// Whatever opening the split refuses, such as a first_id that is not that of its shard. Requires whole shards.
void check_opening(const fs::path& folder, Problems& problems) {
  problems.passes("", [&] { Dataset::open(folder); });
}

/// Checks that no two classes have the same name, and that the split is the one in the folder's name.
void check_names(const fs::path& folder, const Manifest& manifest, Problems& problems) {
  const std::string file = (folder / "manifest.json").string();
  std::map<std::string, size_t> labels;
  for (size_t label = 0; label < manifest.class_names.size(); ++label) {
    const auto [first, is_new] = labels.emplace(manifest.class_names[label], label);
    if (is_new) continue;
    problems.add(concat(file, ": class_names: ", in_quotes(first->first), " is the name of labels ", first->second,
                        " and ", label, "; expected every name once"));
  }
  if (const auto problem = class_problem(folder, manifest); !problem.empty()) problems.add(problem);
  const std::string name = resolved_name(folder);
  const bool is_of_a_split = name == "train" || name == "test" || name == "all";
  if (!is_of_a_split) return;
  if (const auto problem = split_problem(folder, manifest, name); !problem.empty()) problems.add(problem);
}

void check_foreign_files(const fs::path& folder, const Manifest& manifest, Problems& problems) {
  std::set<std::string> known{"manifest.json"};
  if (manifest.skipped_count > 0) known.insert(kSkippedFile);
  for (const auto& shard : manifest.shards) known.insert(shard.file);
  std::set<std::string> foreign;  // sorted, because a folder lists its files in any order
  for (const auto& name : files_of(folder).list(folder))
    if (!known.contains(name)) foreign.insert(name);
  for (const auto& name : foreign)
    problems.add(concat((folder / name).string(), ": the manifest does not name it; expected its shards alone"));
}

}  // namespace

Problems verify(const std::filesystem::path& split_folder, int jobs) {
  Problems problems;
  Manifest manifest;
  if (!problems.passes("", [&] { manifest = read_manifest(split_folder); })) return problems;

  const detail::Tally empty(manifest.class_names.size(), manifest.fields.size());
  std::vector<Finding> findings(manifest.shards.size(), Finding{{}, empty, {}});
  detail::run_parallel(findings.size(), jobs, [&](size_t i, const std::atomic<bool>&) {
    check_shard_whole(split_folder / manifest.shards[i].file, manifest.shards[i], manifest, findings[i]);
  });

  detail::Tally total = empty;
  std::vector<uint64_t> ids;
  for (size_t i = 0; i < findings.size(); ++i) {
    problems.append(findings[i].problems, (split_folder / manifest.shards[i].file).string());
    total.add(findings[i].tally);
    ids.insert(ids.end(), findings[i].ids.begin(), findings[i].ids.end());
  }
  Problems whole;
  check_names(split_folder, manifest, whole);
  if (problems.count == 0) {
    check_totals(split_folder, manifest, total, std::move(ids), whole);
    if (whole.count == 0) check_opening(split_folder, whole);
  }
  check_foreign_files(split_folder, manifest, whole);
  problems.append(whole, split_folder.string());
  return problems;
}

}  // namespace penstock
