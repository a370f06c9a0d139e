// Partial: locks the folder, keeps the states of finished shards, and renames the folder at the end.
#include "loader/pack/partial.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "core/atomic_file.h"
#include "core/bytes.h"
#include "core/regular_file.h"
#include "core/strict_json.h"
#include "core/text.h"

namespace penstock::detail {

namespace fs = std::filesystem;

namespace {
constexpr const char* kReplaced = "replaced";  // the old data set, while it is exchanged in two steps
}

Partial::Partial(const fs::path& output, const std::string& split, std::string key, Tally empty)
    : output_(output),
      folder_(output / ("." + split + ".partial")),
      final_(output / split),
      key_(std::move(key)),
      empty_(std::move(empty)) {
  made_output_ = fs::create_directories(output_);
  try {
    lock();
    if (fs::exists(folder_ / kReplaced) && !fs::exists(final_)) fs::rename(folder_ / kReplaced, final_);
    fs::create_directories(folder());
  } catch (...) {
    if (lock_ >= 0) close(lock_);
    std::error_code ignored;
    if (made_output_) fs::remove(output_, ignored);
    throw;
  }
}

Partial::~Partial() {
  std::error_code ignored;  // publish() has renamed what counts, or an exception is on its way already
  fs::remove_all(folder_, ignored);
  if (made_output_) fs::remove(output_, ignored);  // fails when it is not empty, as it should
  close(lock_);
}

/// Tries until the locked folder is the one that has the name, because another packing that ends may remove its folder
/// between our steps.
void Partial::lock() {
  for (;;) {
    fs::create_directory(folder_);
    lock_ = open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock_ < 0 && errno == ENOENT) continue;
    if (lock_ < 0) throw errno_error(folder_.string(), "expected a folder to work in");
    if (flock(lock_, LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) throw errno_error(folder_.string(), "expected to lock it");
      throw Busy(ErrorKind::kIo,
                 concat(folder_.string(), ": another process is packing into it; expected one at a time"));
    }
    struct stat locked {
    }, named{};
    if (fstat(lock_, &locked) == 0 && stat(folder_.c_str(), &named) == 0 && locked.st_ino == named.st_ino) return;
    close(lock_);
    lock_ = -1;
  }
}

fs::path Partial::state_path(size_t shard) const { return folder_ / concat("finished-", shard, ".json"); }

std::optional<FinishedShard> Partial::read_state(size_t shard, const std::string& file) const {
  if (!fs::exists(state_path(shard))) return {};
  try {
    const auto bytes = read_file(state_path(shard), kMostOfText);
    const std::string_view text = as_text(bytes);
    const auto state = parse_strict_json(text, state_path(shard).string(), 3);
    if (state.at("key").get<std::string>() != key_) return {};
    const auto tally = Tally::from_numbers(empty_, state.at("tally").get<std::vector<uint64_t>>());
    const auto byte_count = state.at("byte_count").get<uint64_t>();
    if (!tally) return {};
    FinishedShard finished{.entry = {.file = file, .sample_count = tally->sample_count(), .byte_count = byte_count},
                           .transcoded_count = state.at("transcoded_count").get<uint64_t>(),
                           .warned_count = state.at("warned_count").get<uint64_t>(),
                           .unsure_count = state.at("unsure_count").get<uint64_t>(),
                           .flat_polygon_count = state.at("flat_polygon_count").get<uint64_t>(),
                           .tally = *tally};
    finished.entry.xxh3 = state.at("xxh3").get<std::string>();
    finished.entry.sha256 = state.at("sha256").get<std::string>();
    if (const auto& id = state.at("first_id"); !id.is_null()) finished.entry.first_id = id.get<uint64_t>();
    for (const auto& [id, reason] : state.at("skipped").get<std::vector<std::pair<uint64_t, std::string>>>())
      finished.skipped.push_back({id, reason});
    return finished;
  } catch (const Error&) {  // not what finish() writes: the shard is packed again
    return {};
  } catch (const nlohmann::json::exception&) {
    return {};
  }
}

bool Partial::is_here(const Manifest::Shard& entry) const {
  const fs::path file = folder() / entry.file;
  return fs::exists(file) && fs::file_size(file) == entry.byte_count;
}

std::vector<std::optional<FinishedShard>> Partial::take_over(const std::vector<std::string>& shard_files,
                                                             const IsThere& is_there) {
  std::vector<std::optional<FinishedShard>> finished;
  std::set<fs::path> kept{folder()};
  for (size_t shard = 0; shard < shard_files.size(); ++shard) {
    auto state = read_state(shard, shard_files[shard]);
    if (state && !(is_there ? is_there(state->entry) : is_here(state->entry))) state.reset();
    finished.push_back(std::move(state));
    if (finished.back()) kept.insert({folder() / shard_files[shard], state_path(shard)});
  }
  std::vector<fs::path> found;
  for (const auto& place : {folder_, folder()})
    for (const auto& entry : fs::directory_iterator(place)) found.push_back(entry.path());
  for (const auto& path : found)
    if (!kept.contains(path)) fs::remove_all(path);
  return finished;
}

void Partial::finish(size_t shard, const FinishedShard& finished) {
  nlohmann::ordered_json state{{"key", key_},
                               {"byte_count", finished.entry.byte_count},
                               {"xxh3", finished.entry.xxh3},
                               {"sha256", finished.entry.sha256},
                               {"first_id", nullptr},
                               {"skipped", nlohmann::ordered_json::array()},
                               {"transcoded_count", finished.transcoded_count},
                               {"warned_count", finished.warned_count},
                               {"unsure_count", finished.unsure_count},
                               {"flat_polygon_count", finished.flat_polygon_count},
                               {"tally", finished.tally.numbers()}};
  if (finished.entry.first_id) state["first_id"] = *finished.entry.first_id;
  for (const auto& [id, reason] : finished.skipped) state["skipped"].push_back(std::pair(id, reason));
  // Not synced, which would cost as much as a small shard: what a power cut leaves of it reads as a shard that is to be
  // packed again.
  AtomicFile file(state_path(shard));
  file.write(state.dump() + "\n");
  file.commit_as_new();
}

void Partial::publish(bool force) {
  sync_folder(folder());
  std::vector<fs::path> states;
  for (const auto& entry : fs::directory_iterator(folder_))
    if (entry.is_regular_file()) states.push_back(entry.path());
  for (const auto& state : states) fs::remove(state);
  sync_folder(folder_);
  const bool is_replaced = force && fs::exists(final_);
  // The exchange leaves the old data set where the new one was, and the destructor removes it.
  const unsigned flags = is_replaced ? RENAME_EXCHANGE : RENAME_NOREPLACE;
  int result = renameat2(AT_FDCWD, folder().c_str(), AT_FDCWD, final_.c_str(), flags);
  if (result != 0 && errno == EINVAL) {  // a file system without the flags (NFS)
    result = is_replaced ? replace_in_two_steps(folder(), final_, folder_ / kReplaced)
                         : std::rename(folder().c_str(), final_.c_str());
  }
  if (result != 0) throw errno_error(final_.string(), "expected to rename the finished data set to it");
  sync_folder(output_);
}

int replace_in_two_steps(const fs::path& from, const fs::path& to, const fs::path& aside) {
  int result = std::rename(to.c_str(), aside.c_str());
  if (result != 0) return result;
  result = std::rename(from.c_str(), to.c_str());
  const int code = errno;
  if (result != 0) std::rename(aside.c_str(), to.c_str());
  errno = code;
  return result;
}

}  // namespace penstock::detail
