// Dataset: shards one after the other, and which samples have passed their checksum.
#include "loader/shards/dataset.h"

#include <algorithm>
#include <atomic>
#include <map>

#include "core/error.h"
#include "core/machine.h"
#include "core/text.h"
#include "loader/files/files.h"
#include "loader/files/map_guard.h"
#include "loader/shards/field_mismatch.h"
#include "loader/shards/first_rows.h"
#include "loader/shards/joined_manifest.h"
#include "loader/shards/shard_slot.h"

namespace penstock {

struct Dataset::State {
  std::shared_ptr<const detail::ShardSlot::Split> split;  // of a data set that was joined, that of all parts together
  /// One entry per shard, shared by what it is joined with; null: not in this rank's share.
  std::vector<std::shared_ptr<const detail::ShardSlot>> slots;
  /// One entry per shard: the shard of the slot once this object has had it, so that a sample is found in one load.
  mutable std::vector<std::atomic<const detail::OpenShard*>> shards;
  std::vector<uint64_t> begins{0};
  std::vector<Part> parts;
  mutable detail::FirstRows first_rows;

  /// Opens the shard unless it is open. Null: not in this rank's share.
  const detail::OpenShard* shard(size_t number) const {
    const auto* found = shards[number].load(std::memory_order_acquire);
    if (found != nullptr || !slots[number]) return found;
    found = &slots[number]->get();
    shards[number].store(found, std::memory_order_release);
    first_rows.drop(number);
    return found;
  }
};

namespace {

// More shards, or shards with more samples, are opened when they are first asked for: to open one takes about 100 us
// and 20 ns per sample, and a map, of which Linux gives a process 65,530 by default. So are those of a set that is
// larger than memory: where they are checked, the kernel may read megabytes around every page that is looked at.
constexpr size_t kMostAtOnce = 2048;
constexpr uint64_t kMostSamplesAtOnce = uint64_t{1} << 25;

/// Says which shards will be opened.
void expect_shards(const std::filesystem::path& folder, const Manifest& manifest, const RankShards& share) {
  std::vector<ExpectedFile> files;
  for (size_t number = static_cast<size_t>(share.rank); number < manifest.shards.size();
       number += static_cast<size_t>(share.world_size)) {
    const auto& entry = manifest.shards[number];
    files.push_back({folder / entry.file, entry.facts()});
  }
  files_of(folder).expect(files);
}

/// Batches have room for the most entries of a field that the manifest states, so that it must not lie: `found` says
/// what a shard has. Without it, all that is known is that a sample is no larger than a shard.
void check_most(const std::filesystem::path& folder, const Manifest& manifest,
                const std::function<uint64_t(size_t shard, size_t field)>& found = {}) {
  for (size_t number = 0; number < manifest.fields.size(); ++number) {
    const auto& type = manifest.fields[number];
    uint64_t most = 0;
    for (size_t shard = 0; shard < manifest.shards.size(); ++shard)
      most = std::max(most, found ? found(shard, number) : manifest.shards[shard].byte_count / type.entry_bytes());
    if (type.most > most)
      throw corrupt_error(concat((folder / "manifest.json").string(), ": fields: ", in_quotes(type.name), ": most is ",
                                 type.most, "; expected ", found ? "" : "at most ", most, ", as the shards have"));
  }
}

std::filesystem::path find_split(const std::filesystem::path& folder, const std::string& split) {
  const std::vector<std::string> known{"train", "test", "all"};  // no other name, such as .., leads anywhere
  const bool is_known = std::find(known.begin(), known.end(), split) != known.end();
  if (has_manifest(folder)) return folder;
  if (is_known && has_manifest(folder / split)) return folder / split;
  const auto can_be_seen = [](const std::filesystem::path& candidate) {
    try {
      return has_manifest(candidate);
    } catch (const Error&) {  // a hint names only what can be looked at
      return false;
    }
  };
  std::vector<std::string> splits;
  for (const auto& name : known)
    if (can_be_seen(folder / name)) splits.push_back(name);
  if (!is_known) {
    throw config_error(concat(folder.string(), ": split is ", in_quotes(split), "; expected ",
                              splits.empty() ? "train, test or all" : concat(join(splits, " or "), ", as is there")));
  }
  const std::string expected = splits.empty() ? "a data set or a split's folder, as shardprep writes them"
                                              : concat("split ", join(splits, " or "), ", as is there");
  const bool is_encoded = !is_local(folder) && folder.string().find('%') != std::string::npos;
  throw io_error(
      concat(folder.string(), ": no manifest.json and no ", split, "/manifest.json; expected ", expected,
             is_encoded ? "; names in s3:// and gs:// are typed as they are, with a space and not %20" : ""));
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
  const auto name = detail::first_other_name(manifest.class_names, other.class_names);
  if (name.empty()) return detail::field_mismatch(folder, manifest.fields, other_folder, other.fields);
  return concat(folder.string(), ": class ", name, ", as in ", other_folder.string(), "; pack it again");
}

std::string class_problem(const std::filesystem::path& split_folder, const Manifest& manifest) {
  return resolved_name(split_folder) == manifest.split ? problem_beside(split_folder, manifest) : "";
}

std::string split_of_name(const std::string& name) {
  return name == "val" || name == "valid" || name == "validation" ? "test" : name;
}

std::shared_ptr<const Dataset> Dataset::open(const std::filesystem::path& folder, const std::string& split,
                                             RankShards share, Opening opening) {
  const std::string name = split_of_name(split);
  const auto found = find_split(folder, name);
  const bool is_data_set = found != folder;  // a split's own folder may have any name
  auto dataset = open_alone(found, share, opening);
  const auto& manifest = dataset->manifest();
  if (const auto problem = is_data_set ? split_problem(found, manifest, name) : ""; !problem.empty())
    throw corrupt_error(problem);
  const auto problem = is_data_set ? problem_beside(found, manifest) : class_problem(found, manifest);
  if (!problem.empty()) throw config_error(problem);
  return dataset;
}

std::shared_ptr<const Dataset> Dataset::open_alone(const std::filesystem::path& split_folder, RankShards share,
                                                   Opening opening) {
  return std::shared_ptr<const Dataset>(new Dataset(split_folder, share, opening));
}

Dataset::Dataset(const std::filesystem::path& split_folder, RankShards share, Opening opening)
    : state_(std::make_unique<State>()) {
  if (share.world_size < 1 || share.rank < 0 || share.rank >= share.world_size) {
    throw config_error(concat(split_folder.string(), ": the shards of rank ", share.rank, " of ", share.world_size,
                              "; expected a rank from 0 to the world size - 1"));
  }
  const auto split = std::make_shared<const detail::ShardSlot::Split>(
      detail::ShardSlot::Split{split_folder, read_manifest(split_folder)});
  const auto& entries = split->manifest.shards;
  check_most(split_folder, split->manifest);
  expect_shards(split_folder, split->manifest, share);
  state_->split = split;
  state_->slots.resize(entries.size());
  state_->shards = std::vector<std::atomic<const detail::OpenShard*>>(entries.size());
  for (const auto& entry : entries) state_->begins.push_back(state_->begins.back() + entry.sample_count);
  state_->parts = {{split_folder, 0, size()}};
  const auto first = static_cast<size_t>(share.rank), step = static_cast<size_t>(share.world_size);
  for (size_t number = first; number < entries.size(); number += step)
    state_->slots[number] = std::make_shared<const detail::ShardSlot>(split, number);
  uint64_t bytes = 0;
  for (const auto& entry : entries) bytes += entry.byte_count;
  const bool is_large =
      entries.size() / step > kMostAtOnce || size() / step > kMostSamplesAtOnce || bytes / step > available_memory();
  const bool is_far = room_shards() != UINT64_MAX;  // a shard is fetched when it is opened
  if (opening == Opening::kWhenAsked || (opening == Opening::kAuto && (is_large || is_far))) return;
  for (size_t number = first; number < entries.size(); number += step) state_->shard(number);
  if (step == 1)
    check_most(split_folder, split->manifest,
               [&](size_t shard, size_t field) { return state_->shard(shard)->reader().most_entries(field); });
}

std::shared_ptr<const Dataset> Dataset::join(const std::vector<std::shared_ptr<const Dataset>>& parts) {
  if (parts.size() == 1) return parts.front();
  auto joined = std::shared_ptr<Dataset>(new Dataset());
  State& state = *joined->state_;
  std::vector<JoinedPart> entries;
  for (const auto& part : parts) entries.push_back({part->folder(), part->manifest()});
  state.split = std::make_shared<const detail::ShardSlot::Split>(
      detail::ShardSlot::Split{parts.front()->folder(), join_manifests(entries)});
  for (const auto& part : parts) {
    const uint64_t begin = state.begins.back();
    for (int shard = 0; shard < part->shard_count(); ++shard) {
      state.slots.push_back(part->state_->slots[static_cast<size_t>(shard)]);
      state.begins.push_back(begin + part->shard_begin(shard + 1));
    }
    for (const auto& own : part->parts()) state.parts.push_back({own.folder, begin + own.begin, begin + own.end});
  }
  state.shards = std::vector<std::atomic<const detail::OpenShard*>>(state.slots.size());
  return joined;
}

Dataset::Dataset() : state_(std::make_unique<State>()) {}
Dataset::~Dataset() = default;

uint64_t Dataset::size() const { return state_->begins.back(); }
int Dataset::shard_count() const { return static_cast<int>(state_->slots.size()); }
uint64_t Dataset::shard_begin(int shard) const { return state_->begins.at(static_cast<size_t>(shard)); }
const Manifest& Dataset::manifest() const { return state_->split->manifest; }
const std::filesystem::path& Dataset::folder() const { return state_->split->folder; }
std::string Dataset::Part::name() const {
  return (is_local(folder) ? std::filesystem::absolute(folder).lexically_normal() : folder).string();
}
const std::vector<Dataset::Part>& Dataset::parts() const { return state_->parts; }

struct Dataset::ShardRow {
  const detail::OpenShard& shard;
  size_t row;
  std::shared_ptr<const detail::ShardPart> part = {};  // that `shard` is of; null: the whole is open
};

Dataset::ShardRow Dataset::place_of(uint64_t index) const {
  const auto& begins = state_->begins;
  const auto after = std::upper_bound(begins.begin(), begins.end(), index);
  const auto number = static_cast<size_t>(after - begins.begin()) - 1;
  const auto row = static_cast<size_t>(index - begins[number]);
  if (state_->shards[number].load(std::memory_order_acquire) == nullptr)
    if (auto part = state_->first_rows.find(number, row)) return {part->shard(), row, part};
  const auto* shard = state_->shard(number);
  if (shard == nullptr) {
    throw bug_error(concat((folder() / manifest().shards[number].file).string(), ": sample ", index,
                           " of the split was asked for; expected one of this rank's shards"));
  }
  return {*shard, row};
}

void Dataset::fetch_rows(const std::vector<uint64_t>& indices, const std::function<void()>& on_wait) const {
  if (room_shards() == UINT64_MAX) return;
  std::map<size_t, std::vector<size_t>> rows;  // by the number of the shard
  for (const uint64_t index : indices) {
    const auto after = std::upper_bound(state_->begins.begin(), state_->begins.end(), index);
    const auto number = static_cast<size_t>(after - state_->begins.begin()) - 1;
    rows[number].push_back(static_cast<size_t>(index - state_->begins[number]));
  }
  std::vector<detail::FirstRows::Wish> wishes;
  for (auto& [number, wanted] : rows) {
    const auto* const slot = state_->slots[number].get();
    const auto is_there = [&, shard = number](size_t row) { return state_->first_rows.find(shard, row) != nullptr; };
    if (slot == nullptr || slot->if_open() != nullptr || std::all_of(wanted.begin(), wanted.end(), is_there)) continue;
    wishes.push_back({number, slot, std::move(wanted)});
  }
  if (wishes.empty()) return;
  state_->first_rows.fetch(wishes, on_wait);
  for (const auto& wish : wishes)  // that were opened meanwhile: nobody asks for their parts any more
    if (state_->slots[wish.shard]->if_open() != nullptr) state_->first_rows.drop(wish.shard);
}

Sample Dataset::at(uint64_t index) const {
  const auto [shard, row, part] = place_of(index);
  return shard.reader().at(row);
}

std::optional<uint64_t> Dataset::example_index() const {
  for (size_t number = 0; number < state_->slots.size(); ++number)
    if (state_->slots[number] && state_->begins[number] < state_->begins[number + 1]) return state_->begins[number];
  return std::nullopt;
}

std::optional<Sample> Dataset::example() const {
  const auto index = example_index();
  if (index) fetch_rows({*index});
  return index ? std::optional(at(*index)) : std::nullopt;
}

Sample Dataset::checked_at(uint64_t index) const {
  const auto [shard, row, part] = place_of(index);
  shard.check_once(row);
  return shard.reader().at(row);
}

HeldField Dataset::field(uint64_t index, size_t number) const {
  const auto [shard, row, part] = place_of(index);
  FileHold held = shard.reader().hold();
  shard.check_field_once(row, number);
  return {shard.reader().field(row, number), std::move(held)};
}

uint64_t Dataset::room_shards() const {
  uint64_t room = UINT64_MAX, largest = 1;
  for (const auto& entry : manifest().shards) largest = std::max(largest, entry.byte_count);
  for (const auto& part : state_->parts) room = std::min(room, files_of(part.folder).room(largest));
  return room;
}

size_t Dataset::field_number(const std::string& name) const {
  std::vector<std::string> names;
  for (const auto& type : manifest().fields) names.push_back(type.name);
  const auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return static_cast<size_t>(found - names.begin());
  throw config_error(
      concat(folder().string(), ": ",
             names.empty() ? concat("no field ", in_quotes(name), "; expected one of its fields, of which there are 0")
                           : unknown_name("field", name, names)));
}

void Dataset::check_read(uint64_t index) const {
  if (!detail::has_map_faults()) return;
  const auto [shard, row, part] = place_of(index);
  shard.reader().check_read(row);
}

void Dataset::check_file(uint64_t index) const {
  const auto [shard, row, part] = place_of(index);
  shard.reader().check_file(row);
}

void Dataset::check_files() const {
  for (const auto& slot : state_->slots)
    if (const auto* shard = slot ? slot->if_open() : nullptr) shard->reader().check_file();
}

void Dataset::read_ahead(int shard) const {
  const auto number = static_cast<size_t>(shard);
  const auto& slot = state_->slots[number];
  if (slot && !slot->if_open() && room_shards() != UINT64_MAX) {  // opening it would wait for its bytes
    const ExpectedFile file = slot->expected();
    return files_of(file.path).expect({file});
  }
  if (const auto* found = state_->shard(number)) found->reader().read_ahead();
}

bool Dataset::drop(int shard) const {
  const auto& slot = state_->slots[static_cast<size_t>(shard)];
  const auto* found = slot ? slot->if_open() : nullptr;
  if (found != nullptr) found->reader().drop();
  return found != nullptr;
}

std::string Dataset::where(uint64_t index) const {
  const auto [shard, row, part] = place_of(index);
  return shard.reader().where(row);
}

}  // namespace penstock
