// What is in the cache of the node.
#include "loader/cache/contents.h"

#include <fcntl.h>
#include <sys/file.h>

#include "loader/cache/folder.h"
#include "loader/files/checksum.h"
#include "loader/files/mapped_file.h"
#include "loader/files/read_from.h"

namespace penstock {
namespace {

bool is_in_use(const std::filesystem::path& file) {
  const detail::OpenFile opened(open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  return opened && flock(opened.descriptor(), LOCK_EX | LOCK_NB) != 0;
}

/// Whether the bytes are those that the name says.
bool is_sound(const CachedShard& shard) {
  const detail::MappedFile file(shard.path);
  detail::FileSum found(shard.sum.size() == 2 * sizeof(detail::Sha256));
  read_from(file, [&] { found.add(file.bytes()); });
  return found.finish() == shard.sum;
}

}  // namespace

std::vector<CachedShard> cached_shards(const std::filesystem::path& folder) {
  auto shards = detail::CacheFolder(folder).list();
  for (auto& shard : shards) shard.is_in_use = is_in_use(shard.path);
  return shards;
}

std::vector<CachedShard> verify_cache(const std::filesystem::path& folder) {
  detail::CacheFolder cache(folder);
  std::vector<CachedShard> removed;
  for (const auto& shard : cache.list()) {
    if (!shard.is_whole || is_sound(shard)) continue;
    const detail::CacheFolder::Lock lock(cache);
    if (detail::CacheFolder::remove_unused(shard.path)) removed.push_back(shard);
  }
  return removed;
}

std::vector<CachedShard> prune_cache(const std::filesystem::path& folder, uint64_t most_bytes) {
  detail::CacheFolder cache(folder);
  const detail::CacheFolder::Lock lock(cache);
  const auto shards = cache.list();
  uint64_t used = 0;
  for (const auto& shard : shards) used += shard.byte_count;
  std::vector<CachedShard> removed;
  for (const auto& shard : shards) {
    if (used <= most_bytes) break;
    if (!detail::CacheFolder::remove_unused(shard.path)) continue;
    used -= shard.byte_count;
    removed.push_back(shard);
  }
  return removed;
}

}  // namespace penstock
