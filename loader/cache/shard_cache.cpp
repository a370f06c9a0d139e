// ShardCache: get, or fetch, or wait for who fetches.
#include "loader/cache/shard_cache.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <system_error>
#include <utility>

#include "core/at_end.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/limits.h"
#include "core/text.h"
#include "loader/cache/download.h"
#include "loader/cache/progress.h"
#include "loader/far/http.h"
#include "loader/far/limiter.h"
#include "loader/far/link_stats.h"
#include "loader/files/interrupt.h"

namespace penstock::detail {
namespace {

constexpr auto kStep = std::chrono::milliseconds(5);
constexpr int kStepsPerQuestion = 20;  // asking takes Python's lock where the consumer makes its batches itself
constexpr auto kWatchStep = std::chrono::milliseconds(50);
constexpr int64_t kNoRoomAfter_ns = 60'000'000'000;

std::string limit_of_environment() {
  const char* const text = std::getenv(kCacheLimitVariable);
  return text == nullptr ? "" : text;
}

/// A shard that is mapped keeps its file open: as many as the system lets this process have.
void raise_file_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

/// Whether the download of another process has not noted for a while how far it is, which it does at least every
/// second. Killed ones lose their lock and are not seen here.
bool has_stopped(const std::filesystem::path& path) {
  struct stat status {};
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (stat(path.c_str(), &status) != 0) return false;
  const int64_t age_s = now.tv_sec - status.st_mtim.tv_sec - (now.tv_nsec < status.st_mtim.tv_nsec ? 1 : 0);
  return age_s >= kStoppedAfter_s;
}

}  // namespace

ShardCache& ShardCache::instance() {
  static auto& cache = *new ShardCache;  // never destroyed, because the last threads of a program may still read
  return cache;
}

ShardCache::ShardCache() : folder_(cache_folder(), limit_of_environment()), waits_(isatty(STDERR_FILENO) == 1) {
  raise_file_limit();
  request_limiter().share(turns_);
  share_link(turns_.link());
  start_transport();  // its own end must come after this one's
  try {
    watcher_ = std::thread([this] { keep_watch(); });
  } catch (const std::system_error&) {
    throw threads_error("the cache of far shards", 1, 0, "a thread for it");
  }
  at_end([] {
    instance().is_ending_ = true;
    instance().watcher_.join();
  });
}

/// Lets go of what is not read when another process wants room, and says what is waited for.
void ShardCache::keep_watch() {
  uint64_t seen = folder_.room_wishes();
  while (!is_ending_) {
    std::this_thread::sleep_for(kWatchStep);
    turns_.beat();
    const LinkStats link = link_stats();
    const std::string line = waits_.tick(now_ns(), link.fetched_bytes, link.is_emulated);
    if (!line.empty()) std::fputs(line.c_str(), stderr);
    if (const uint64_t now = folder_.room_wishes(); std::exchange(seen, now) != now) drop_all();
  }
  std::fputs(waits_.last_tick().c_str(), stderr);
}

void ShardCache::add(const std::string& sum, Droppable& holder) {
  const MutexLock lock(mutex_);
  holders_.emplace(sum, &holder);
}

void ShardCache::remove(const std::string& sum, Droppable& holder) {
  const MutexLock lock(mutex_);
  for (auto [at, end] = holders_.equal_range(sum); at != end; ++at) {
    if (at->second != &holder) continue;
    holders_.erase(at);
    return;
  }
}

void ShardCache::drop(const std::string& sum) {
  const MutexLock lock(mutex_);
  for (auto [at, end] = holders_.equal_range(sum); at != end; ++at) at->second->drop_unless_read();
}

void ShardCache::drop_all() {
  const MutexLock lock(mutex_);
  for (const auto& [sum, holder] : holders_) holder->drop_unless_read();
}

void ShardCache::leave(const std::string& sum) {
  drop(sum);
  folder_.mark_spent(sum);
}

/// What is mapped and not read keeps its file open, because its lock is that file's: it is let go where files run out.
template <class Step>
auto ShardCache::with_files(const Step& step) {
  try {
    return step();
  } catch (const OutOfFiles&) {
    drop_all();
  }
  return step();
}

CacheFolder::Place ShardCache::take(const FarShard& shard, CacheFolder::Evicts evicts, bool is_beside) {
  return with_files([&] {
    return folder_.take(shard.facts.sum(), shard.facts.byte_count, evicts, is_beside,
                        [this](const std::string& sum) { drop(sum); });
  });
}

OpenFile ShardCache::open_whole(const FarShard& shard) {
  return with_files([&] { return folder_.open_whole(shard.facts.sum(), shard.facts.byte_count); });
}

void ShardCache::download(const FarShard& shard, CacheFolder::Place& place) {
  try {
    with_files([&] {
      detail::download(*shard.origin, shard.address, shard.facts, place,
                       {.is_ending = is_ending_,
                        .on_done = [&](uint64_t done) { waits_.arrived(shard.facts.sum(), done); },
                        .is_waited_for = [&] { return waits_.is_waited_for(shard.facts.sum()); }});
    });
  } catch (const Error& error) {
    // What came stays for the next one, unless it is known to be wrong.
    const auto progress = read_progress(place.file.descriptor(), shard.facts.byte_count);
    const bool is_there = bool{open_whole(shard)};  // by another process
    if (error.kind() == ErrorKind::kCorrupt || !progress || progress->done == 0 || is_there) folder_.discard(place);
    throw;
  }
  with_files([&] { folder_.publish(place, shard.facts.sum(), shard.facts.byte_count); });
}

OpenFile ShardCache::get(const FarShard& shard) {
  if (auto file = open_whole(shard)) {
    count_hit(shard.facts.byte_count);
    return file;
  }
  waits_.begin(shard.facts.sum(), shard.address, shard.facts.byte_count);
  try {
    OpenFile file = get_absent(shard);
    waits_.end(shard.facts.sum());
    return file;
  } catch (...) {
    waits_.end(shard.facts.sum());
    throw;
  }
}

OpenFile ShardCache::get_absent(const FarShard& shard) {
  bool is_beside = false;
  int64_t had_room_ns = now_ns();
  for (int step = 1;; ++step) {
    auto place = take(shard, CacheFolder::Evicts::kAny, is_beside);
    if (place.kind == CacheFolder::Place::Kind::kTaken) {
      // Another process may have finished it between the look and the lock.
      if (auto file = open_whole(shard)) {
        folder_.discard(place);
        return file;
      }
      download(shard, place);
      count_fetch(shard.facts.sum(), shard.facts.byte_count, /*is_ahead=*/false);
      return std::move(place.file);
    }
    if (place.kind == CacheFolder::Place::Kind::kNoRoom) {
      folder_.ask_for_room();
      if (now_ns() - had_room_ns > kNoRoomAfter_ns)
        throw config_error(concat("--cache-limit: is ", folder_.limit_bytes(), " bytes, and all of them are being ",
                                  "read; expected room for ", shard.facts.byte_count, " more for ", shard.address,
                                  ": a higher limit, or fewer ranks and workers"));
    } else {
      had_room_ns = now_ns();
      is_beside = !place.path.empty() && has_stopped(place.path);
    }
    if (step % kStepsPerQuestion == 0 && is_interrupted())
      throw io_error(concat(shard.address, ": is not in the cache; expected somebody who still waits for it"));
    std::this_thread::sleep_for(kStep);
    if (auto file = open_whole(shard)) return file;
  }
}

bool ShardCache::fetch_ahead(const FarShard& shard) {
  if (open_whole(shard)) return true;
  auto place = take(shard, CacheFolder::Evicts::kSpent, /*is_beside=*/false);
  if (place.kind != CacheFolder::Place::Kind::kTaken) return false;
  if (open_whole(shard)) {
    folder_.discard(place);
    return true;
  }
  download(shard, place);
  count_fetch(shard.facts.sum(), shard.facts.byte_count, /*is_ahead=*/true);
  return true;
}

}  // namespace penstock::detail
