// merge_parts(): checks that parts belong together, links their shards and adds up their manifests.
#include "loader/pack/merge.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/atomic_file.h"
#include "core/error.h"
#include "core/number_text.h"
#include "core/regular_file.h"
#include "core/strict_json.h"
#include "core/text.h"
#include "loader/files/mapped_file.h"
#include "loader/files/read_from.h"
#include "loader/pack/class_table.h"
#include "loader/pack/pack_options.h"
#include "loader/pack/part.h"
#include "loader/pack/partial.h"
#include "loader/shards/shard_slot.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

constexpr int kMostNamed = 5;  // parts that lack are named up to this number

/// A part, and where it was found.
struct Found {
  fs::path path;  // of its part.json, for messages
  detail::PartFile part;
  Manifest manifest;
  fs::path folder;
};

std::vector<fs::path> part_files(const MergeOptions& options, const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& attempt : options.attempts) files.push_back(folder / attempt / detail::kPartFile);
  if (!files.empty()) return files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_regular_file() && name.starts_with("part-") && name.ends_with(".json")) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<Found> find_parts(const MergeOptions& options, const fs::path& folder) {
  std::vector<Found> found;
  if (fs::is_directory(folder))
    for (const auto& path : part_files(options, folder)) found.push_back({path, detail::read_part(path), {}, {}});
  if (found.empty()) {
    throw io_error(concat(folder.string(), ": no finished part of split ", options.split,
                          "; expected those that shardprep pack --part I/N has left there"));
  }
  for (auto& part : found) {
    part.folder = folder / part.part.folder;
    part.manifest = read_manifest(part.folder);
  }
  std::ranges::stable_sort(found, {}, [](const Found& part) { return part.part.index; });
  return found;
}

/// The first difference between what two parts say, as `source is mnist, and that of part-0.json is digits`; "" if they
/// are of one set.
std::string difference(const Found& part, const Found& first) {
  const Manifest &own = part.manifest, &other = first.manifest;
  const std::string name = first.path.filename().string();
  const auto differ = [&](const char* what, const auto& mine, const auto& theirs) {
    return concat(what, " is ", mine, ", and that of ", name, " is ", theirs);
  };
  if (part.part.count != first.part.count)
    return concat("is one of ", part.part.count, " parts, and ", name, " is one of ", first.part.count);
  if (own.source != other.source) return differ("source", own.source, other.source);
  if (own.split != other.split) return differ("split", own.split, other.split);
  if (own.storage != other.storage) return differ("storage", own.storage, other.storage);
  if (own.shuffle_seed != other.shuffle_seed) return differ("shuffle-seed", own.shuffle_seed, other.shuffle_seed);
  if (own.class_names != other.class_names) return concat("has other classes than ", name);
  if (part.part.key != first.part.key) return concat("is of other pictures or options than ", name);
  if (part.part.count > 0 && part.part.codebook != first.part.codebook)
    return concat("has another codebook than ", name);
  return "";
}

void check_parts(const std::vector<Found>& parts) {
  const Found& first = parts.front();
  for (const auto& part : parts) {
    const std::string fact = difference(part, first);
    if (!fact.empty())
      throw config_error(concat(part.path.string(), ": ", fact, "; expected parts of one data set: pack it again"));
  }
  for (size_t i = 1; i < parts.size(); ++i) {
    if (parts[i].part.index != parts[i - 1].part.index) continue;
    throw config_error(concat(parts[i].path.string(), ": is part ", parts[i].part.index, ", as ",
                              parts[i - 1].path.string(), " is; expected each part only once"));
  }
  if (first.part.count == 0 || parts.size() == static_cast<size_t>(first.part.count)) return;
  std::vector<std::string> lacking;
  int next = 0, count = first.part.count - static_cast<int>(parts.size());
  for (size_t i = 0; next < first.part.count && lacking.size() < kMostNamed; ++next) {
    if (i < parts.size() && parts[i].part.index == next)
      ++i;
    else
      lacking.push_back(concat(next));
  }
  const auto more = count - static_cast<int>(lacking.size());
  throw config_error(concat(first.path.parent_path().string(), ": ", count == 1 ? "part " : "parts ", join(lacking),
                            more > 0 ? concat(" and ", more, " more") : "", " of ", first.part.count,
                            count == 1 ? " is" : " are", " not finished; expected all of them: run shardprep pack ",
                            "--part ", lacking.front(), "/", first.part.count));
}

/// A shard of a part, and its place among all.
struct PartShard {
  const Found* part;
  Manifest::Shard entry;
};

/// All shards in their order; the files get their names in the data set.
std::vector<PartShard> shards_of(const std::vector<Found>& parts) {
  std::map<std::pair<size_t, int>, PartShard> sorted;  // by place in the part and then part, or the other way round
  for (const auto& part : parts)
    for (size_t i = 0; i < part.manifest.shards.size(); ++i) {
      const auto place = part.part.count == 0 ? std::pair(static_cast<size_t>(part.part.index), static_cast<int>(i))
                                              : std::pair(i, part.part.index);
      sorted.emplace(place, PartShard{&part, part.manifest.shards[i]});
    }
  std::vector<PartShard> shards;
  for (auto& [place, shard] : sorted) shards.push_back(std::move(shard));
  for (size_t i = 0; i < shards.size(); ++i) {
    const auto path = shards[i].part->folder / shards[i].entry.file;
    std::error_code failure;
    const auto byte_count = fs::file_size(path, failure);
    if (failure) throw io_error(concat(path.string(), ": ", failure.message(), "; expected a shard of that part"));
    if (byte_count != shards[i].entry.byte_count) {
      throw corrupt_error(concat(path.string(), ": ", byte_count, " bytes; expected ", shards[i].entry.byte_count,
                                 ", as the manifest beside it says"));
    }
  }
  return shards;
}

/// Pictures of one part are of one kind: where it is another than before, the first of them shows it.
void add_part(const Found& part, const detail::Tally& tally, detail::Tally& total) {
  try {
    total.add(tally);
  } catch (const Error& error) {
    const auto& shards = part.manifest.shards;
    const auto first = std::ranges::find_if(shards, [](const auto& shard) { return shard.first_id.has_value(); });
    throw Error(error.kind(),
                concat((part.folder / first->file).string(), ": id ", *first->first_id, ": ", error.what()));
  }
}

Manifest merged_manifest(const std::vector<Found>& parts, const std::vector<PartShard>& shards) {
  Manifest manifest = parts.front().manifest;
  manifest.shards.clear();
  manifest.skipped_count = manifest.transcoded_count = manifest.warned_count = 0;
  const detail::Tally empty(manifest.class_names.size(), manifest.fields.size());
  detail::Tally total = empty;
  for (const auto& part : parts) {
    const auto tally = detail::Tally::from_numbers(empty, part.part.tally);
    if (!tally || tally->sample_count() != part.manifest.sample_count)
      throw corrupt_error(concat(part.path.string(), ": tally is of other samples than the manifest of that part; ",
                                 "expected to remove it and to pack that part again"));
    add_part(part, *tally, total);
    manifest.skipped_count += part.part.skipped_count;
    manifest.transcoded_count += part.manifest.transcoded_count;
    manifest.warned_count += part.manifest.warned_count;
  }
  for (size_t i = 0; i < shards.size(); ++i) {
    manifest.shards.push_back(shards[i].entry);
    manifest.shards.back().file = detail::shard_file(i, static_cast<int>(shards.size()));
  }
  detail::set_totals(manifest, total, /*may_be_empty=*/false);
  return manifest;
}

constexpr uint64_t kMostSkippedBytes = uint64_t{1} << 32;

/// Unites the lists of pictures that were left out, in order of their ids.
void merge_skipped(const std::vector<Found>& parts, const fs::path& folder) {
  std::vector<std::pair<uint64_t, std::string>> lines;
  for (const auto& part : parts) {
    const auto path = part.folder / kSkippedFile;
    if (part.part.skipped_count == 0) continue;
    for (const auto& line : split(read_text(path, kMostSkippedBytes), '\n')) {
      if (line.empty()) continue;
      const auto object = detail::parse_strict_json(line, path.string(), 1);
      const auto id = object.find("id");
      if (id == object.end() || !id->is_number_unsigned())
        throw corrupt_error(concat(path.string(), ": a line is ", in_quotes(line), "; expected an object with an id"));
      lines.emplace_back(id->get<uint64_t>(), line);
    }
  }
  if (lines.empty()) return;
  std::sort(lines.begin(), lines.end());
  AtomicFile file(folder / kSkippedFile);
  for (const auto& [id, line] : lines) file.write(line + "\n");
  file.commit();
}

/// Throws config_error when another split has been packed with other classes since the parts were.
void check_classes(const MergeOptions& options, const Manifest& manifest) {
  const auto table = detail::class_table(manifest.class_names, manifest.fields, options.output, options.split, {});
  if (table.names == manifest.class_names) return;
  throw config_error(concat((options.output / options.split).string(),
                            ": another split was packed in the meantime, with other classes; expected to pack and to ",
                            "merge one split after the other"));
}

/// A copy is synced, because the parts are removed once the split is published.
void link_or_copy(const fs::path& from, const fs::path& to) {
  std::error_code failure;
  fs::create_hard_link(from, to, failure);
  if (!failure) return;
  const detail::MappedFile shard(from);
  AtomicFile copy(to);
  read_from(shard, [&] { copy.write(shard.bytes()); });
  copy.commit();
}

void merge(const MergeOptions& options) {
  PackOptions as_packed;
  as_packed.split = options.split;
  as_packed.output = options.output;
  as_packed.force = options.force;
  check_pack_options(as_packed);  // nothing may be in the way
  const auto folder = detail::parts_folder(options.output, options.split);
  const auto parts = find_parts(options, folder);
  check_parts(parts);
  const auto shards = shards_of(parts);
  const Manifest manifest = merged_manifest(parts, shards);
  check_classes(options, manifest);
  detail::Partial partial(options.output, options.split, "merge", detail::Tally(0));
  partial.take_over({});  // removes what is there: no shard of it is one of ours
  for (size_t i = 0; i < shards.size(); ++i)
    link_or_copy(shards[i].part->folder / shards[i].entry.file, partial.folder() / manifest.shards[i].file);
  // Nothing is published, and no part removed, before every shard has opened as the manifest says.
  for (const auto& entry : manifest.shards)
    detail::OpenShard({partial.folder() / entry.file, entry.facts()}, manifest, entry);
  merge_skipped(parts, partial.folder());
  write_manifest(partial.folder(), manifest);
  partial.publish(options.force);
  std::error_code ignored;  // what stays is in nobody's way
  fs::remove_all(folder, ignored);
}

}  // namespace

void merge_parts(const MergeOptions& options) {
  try {
    merge(options);
  } catch (const fs::filesystem_error& error) {
    throw io_error(
        concat(error.path1().string(), ": ", error.code().message(), "; expected that merge can read or write it"));
  }
}

std::vector<std::string> splits_with_parts(const fs::path& output) {
  std::vector<std::string> splits;
  for (const std::string split : {"train", "all", "test"})
    if (fs::is_directory(detail::parts_folder(output, split))) splits.push_back(split);
  return splits;
}

namespace detail {

std::string shard_file(size_t shard, int shard_count) {
  return printed("shard-%05zu-of-%05d.safetensors", shard, shard_count);
}

void set_totals(Manifest& manifest, const Tally& total, bool may_be_empty) {
  manifest.sample_count = total.sample_count();
  if (manifest.sample_count == 0 && !may_be_empty) {
    throw corrupt_error(concat("source ", manifest.source, ": all ", manifest.skipped_count,
                               " pictures are broken; expected one that can be packed"));
  }
  manifest.class_counts = total.class_counts();
  for (size_t i = 0; i < manifest.fields.size(); ++i) manifest.fields[i].most = total.field_most(i);
  manifest.channels = total.channels();
  manifest.pixels = total.pixels();
  manifest.extent = total.extent();
  manifest.statistics = total.statistics();
}

}  // namespace detail
}  // namespace penstock
