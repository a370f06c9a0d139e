// Dataset: shards one after the other, and which samples have passed their checksum.
#include "loader/shards/dataset.h"

#include <algorithm>
#include <atomic>

#include "core/error.h"
#include "core/text.h"
#include "loader/files/files.h"
#include "loader/files/map_guard.h"
#include "loader/shards/joined_manifest.h"

namespace penstock {

struct Dataset::State {
  std::filesystem::path folder;
  Manifest manifest;
  /// One entry per shard, shared by what it is joined with; null: not in this rank's share.
  std::vector<std::shared_ptr<const ShardReader>> shards;
  std::vector<uint64_t> begins{0};
  std::vector<Part> parts;
  std::vector<std::atomic<uint64_t>> checked;  // one bit per sample, and then one per sample and field

  void make_bits() {
    checked = std::vector<std::atomic<uint64_t>>(begins.back() * (1 + manifest.fields.size()) / 64 + 1);
  }

  /// Runs `check` unless it has passed for this bit before. Relaxed order is enough, because the bytes never change: at
  /// worst two threads check the same sample.
  template <class Check>
  void check_once(uint64_t number, const Check& check) {
    auto& word = checked[number / 64];
    const uint64_t bit = uint64_t{1} << (number % 64);
    if ((word.load(std::memory_order_relaxed) & bit) != 0) return;
    check();
    word.fetch_or(bit, std::memory_order_relaxed);
  }
};

namespace {

std::string expected_extent(const Manifest& manifest) {
  if (!manifest.extent) return concat("at most ", manifest.channels, " channels");
  const auto [height, width, channels] = *manifest.extent;
  return concat(height, " x ", width, " x ", channels);
}

/// Compares sizes, labels and extents in the shard with what the manifest says.
void check_shard(const ShardReader& shard, const Manifest& manifest, const Manifest::Shard& entry) {
  const auto check_number = [&](uint64_t found, uint64_t expected, const char* what) {
    if (found == expected) return;
    throw corrupt_error(
        concat(shard.path().string(), ": ", found, " ", what, "; expected ", expected, ", as the manifest says"));
  };
  check_number(shard.size(), entry.sample_count, "samples");
  check_number(shard.byte_count(), entry.byte_count, "bytes");
  if (entry.first_id && shard.size() > 0 && shard.at(0).id != *entry.first_id) {
    throw corrupt_error(concat(shard.where(0), ": id is ", shard.at(0).id, "; expected ", *entry.first_id,
                               ", as the manifest says of the first sample in this file"));
  }
  for (size_t row = 0; row < shard.size(); ++row) {
    const Sample sample = shard.at(row);
    if (!manifest.has_label(sample.label))
      throw corrupt_error(concat(shard.where(row), ": label is ", sample.label, "; expected ", manifest.label_range()));
    const bool fits = manifest.extent ? sample.extent == *manifest.extent : sample.extent.channels <= manifest.channels;
    if (!fits) {
      throw corrupt_error(concat(shard.where(row), ": extent is ", sample.extent.height, " x ", sample.extent.width,
                                 " x ", sample.extent.channels, "; expected ", expected_extent(manifest),
                                 ", as the manifest says"));
    }
  }
}

FileFacts facts_of(const Manifest::Shard& entry) { return {entry.byte_count, entry.xxh3}; }

/// Says which shards will be opened.
void expect_shards(const std::filesystem::path& folder, const Manifest& manifest, const RankShards& share) {
  std::vector<ExpectedFile> files;
  for (size_t number = static_cast<size_t>(share.rank); number < manifest.shards.size();
       number += static_cast<size_t>(share.world_size)) {
    const auto& entry = manifest.shards[number];
    files.push_back({folder / entry.file, facts_of(entry)});
  }
  files_of(folder).expect(files);
}

std::filesystem::path find_split(const std::filesystem::path& folder, const std::string& split) {
  for (const auto& candidate : {folder, folder / split})
    if (has_manifest(candidate)) return candidate;
  const auto can_be_seen = [](const std::filesystem::path& candidate) {
    try {
      return has_manifest(candidate);
    } catch (const Error&) {  // a hint names only what can be looked at
      return false;
    }
  };
  std::vector<std::string> splits;
  for (const auto& name : {"train", "test", "all"})
    if (can_be_seen(folder / name)) splits.push_back(name);
  const std::string expected = splits.empty() ? "a data set or a split's folder, as shardprep writes them"
                                              : concat("split ", join(splits, " or "), ", as is there");
  throw io_error(concat(folder.string(), ": no manifest.json and no ", split, "/manifest.json; expected ", expected));
}

/// class_problem() of the split test in `split_folder` and the splits beside it that are trained on.
std::string problem_beside(const std::filesystem::path& split_folder, const Manifest& manifest) {
  if (manifest.split != "test") return "";
  for (const auto& name : {"train", "all"}) {
    const auto other_folder = folder_beside(split_folder, name);
    try {
      if (!has_manifest(other_folder)) continue;
      const Manifest other = read_manifest(other_folder);
      const auto problem = class_problem(split_folder, manifest, other_folder, other);
      if (!problem.empty()) return problem;
    } catch (const Error&) {  // what is wrong with another split is said where that one is opened
    }
  }
  return "";
}

}  // namespace

bool has_manifest(const std::filesystem::path& folder) { return files_of(folder).exists(folder / "manifest.json"); }

std::string split_problem(const std::filesystem::path& split_folder, const Manifest& manifest,
                          const std::string& name) {
  if (manifest.split == name) return "";
  return concat((split_folder / "manifest.json").string(), ": split is ", in_quotes(manifest.split), "; expected ",
                in_quotes(name), ", as the folder's name says");
}

std::string class_problem(const std::filesystem::path& folder, const Manifest& manifest,
                          const std::filesystem::path& other_folder, const Manifest& other) {
  const auto& names = manifest.class_names;
  const auto& expected = other.class_names;
  if (names == expected) return "";
  const auto first = static_cast<size_t>(
      std::mismatch(names.begin(), names.end(), expected.begin(), expected.end()).first - names.begin());
  const auto named = [&](const auto& list) { return first < list.size() ? in_quotes(list[first]) : "none"; };
  return concat(folder.string(), ": class ", first, " is ", named(names), "; expected ", named(expected), ", as in ",
                other_folder.string(), "; pack it again");
}

std::string class_problem(const std::filesystem::path& split_folder, const Manifest& manifest) {
  return resolved_name(split_folder) == manifest.split ? problem_beside(split_folder, manifest) : "";
}

std::string split_of_name(const std::string& name) {
  return name == "val" || name == "valid" || name == "validation" ? "test" : name;
}

std::shared_ptr<const Dataset> Dataset::open(const std::filesystem::path& folder, const std::string& split,
                                             RankShards share) {
  const std::string name = split_of_name(split);
  const auto found = find_split(folder, name);
  const bool is_data_set = found != folder;  // a split's own folder may have any name
  auto dataset = open_alone(found, share);
  const auto& manifest = dataset->manifest();
  if (const auto problem = is_data_set ? split_problem(found, manifest, name) : ""; !problem.empty())
    throw corrupt_error(problem);
  const auto problem = is_data_set ? problem_beside(found, manifest) : class_problem(found, manifest);
  if (!problem.empty()) throw config_error(problem);
  return dataset;
}

std::shared_ptr<const Dataset> Dataset::open_alone(const std::filesystem::path& split_folder, RankShards share) {
  return std::shared_ptr<const Dataset>(new Dataset(split_folder, share));
}

Dataset::Dataset(const std::filesystem::path& split_folder, RankShards share) : state_(std::make_unique<State>()) {
  if (share.world_size < 1 || share.rank < 0 || share.rank >= share.world_size) {
    throw config_error(concat(split_folder.string(), ": the shards of rank ", share.rank, " of ", share.world_size,
                              "; expected a rank from 0 to the world size - 1"));
  }
  state_->folder = split_folder;
  state_->manifest = read_manifest(split_folder);
  expect_shards(split_folder, state_->manifest, share);
  for (const auto& entry : state_->manifest.shards) {
    const auto number = static_cast<int>(state_->shards.size());
    auto& shard = state_->shards.emplace_back();
    state_->begins.push_back(state_->begins.back() + entry.sample_count);
    if (number % share.world_size != share.rank) continue;
    shard = std::make_shared<const ShardReader>(split_folder / entry.file, state_->manifest.fields, facts_of(entry));
    const FileHold held = shard->hold();
    check_shard(*shard, state_->manifest, entry);
  }
  state_->parts = {{split_folder, 0, size()}};
  state_->make_bits();
}

std::shared_ptr<const Dataset> Dataset::join(const std::vector<std::shared_ptr<const Dataset>>& parts) {
  if (parts.size() == 1) return parts.front();
  auto joined = std::shared_ptr<Dataset>(new Dataset());
  State& state = *joined->state_;
  state.folder = parts.front()->folder();
  std::vector<JoinedPart> entries;
  for (const auto& part : parts) entries.push_back({part->folder(), part->manifest()});
  state.manifest = join_manifests(entries);
  for (const auto& part : parts) {
    const uint64_t begin = state.begins.back();
    for (int shard = 0; shard < part->shard_count(); ++shard) {
      state.shards.push_back(part->state_->shards[static_cast<size_t>(shard)]);
      state.begins.push_back(begin + part->shard_begin(shard + 1));
    }
    for (const auto& own : part->parts()) state.parts.push_back({own.folder, begin + own.begin, begin + own.end});
  }
  state.make_bits();
  return joined;
}

Dataset::Dataset() : state_(std::make_unique<State>()) {}
Dataset::~Dataset() = default;

uint64_t Dataset::size() const { return state_->begins.back(); }
int Dataset::shard_count() const { return static_cast<int>(state_->shards.size()); }
uint64_t Dataset::shard_begin(int shard) const { return state_->begins.at(static_cast<size_t>(shard)); }
const Manifest& Dataset::manifest() const { return state_->manifest; }
const std::filesystem::path& Dataset::folder() const { return state_->folder; }
const std::vector<Dataset::Part>& Dataset::parts() const { return state_->parts; }

struct Dataset::ShardRow {
  const ShardReader& shard;
  size_t row;
};

Dataset::ShardRow Dataset::place_of(uint64_t index) const {
  const auto& begins = state_->begins;
  const auto after = std::upper_bound(begins.begin(), begins.end(), index);
  const auto number = static_cast<size_t>(after - begins.begin()) - 1;
  const auto& shard = state_->shards[number];
  if (!shard) {
    throw bug_error(concat((state_->folder / state_->manifest.shards[number].file).string(), ": sample ", index,
                           " of the split was asked for; expected one of this rank's shards"));
  }
  return {*shard, static_cast<size_t>(index - begins[number])};
}

Sample Dataset::at(uint64_t index) const {
  const auto [shard, row] = place_of(index);
  return shard.at(row);
}

std::optional<Sample> Dataset::example() const {
  for (const auto& shard : state_->shards)
    if (shard && shard->size() > 0) return shard->at(0);
  return std::nullopt;
}

Sample Dataset::checked_at(uint64_t index) const {
  const auto place = place_of(index);
  state_->check_once(index, [&] { place.shard.check_crc(place.row); });
  return place.shard.at(place.row);
}

FieldBytes Dataset::field(uint64_t index, size_t number) const {
  const auto place = place_of(index);
  state_->check_once(size() * (1 + number) + index, [&] { place.shard.check_field_crc(place.row, number); });
  return place.shard.field(place.row, number);
}

FileHold Dataset::hold(uint64_t index) const { return place_of(index).shard.hold(); }

uint64_t Dataset::room_shards() const {
  uint64_t room = UINT64_MAX, largest = 1;
  for (const auto& entry : state_->manifest.shards) largest = std::max(largest, entry.byte_count);
  for (const auto& part : state_->parts) room = std::min(room, files_of(part.folder).room(largest));
  return room;
}

size_t Dataset::field_number(const std::string& name) const {
  std::vector<std::string> names;
  for (const auto& type : manifest().fields) names.push_back(type.name);
  const auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return static_cast<size_t>(found - names.begin());
  throw config_error(concat(folder().string(), ": ",
                            names.empty() ? concat("no field ", in_quotes(name), "; its samples have no fields")
                                          : unknown_name("field", name, names)));
}

void Dataset::check_read(uint64_t index) const {
  if (!detail::has_map_faults()) return;
  const auto [shard, row] = place_of(index);
  shard.check_read(row);
}

void Dataset::check_file(uint64_t index) const {
  const auto [shard, row] = place_of(index);
  shard.check_file(row);
}

void Dataset::check_files() const {
  for (const auto& shard : state_->shards)
    if (shard) shard->check_file();
}

std::string Dataset::where(uint64_t index) const {
  const auto [shard, row] = place_of(index);
  return shard.where(row);
}

}  // namespace penstock
