// What is in the cache of the node, for people to see and to remove.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "loader/cache/cache_options.h"

namespace penstock {

/// What is in the cache, those first that were not used for longest. Errors: io_error, and config_error where the
/// folder is no cache.
std::vector<CachedShard> cached_shards(const std::filesystem::path& folder);

/// Reads every whole shard that nobody uses, and removes those whose XXH3 is not their name. Returns what was removed.
std::vector<CachedShard> verify_cache(const std::filesystem::path& folder);

/// Removes what nobody uses, those first that were not used for longest, until at most `most_bytes` are left. Returns
/// what was removed.
std::vector<CachedShard> prune_cache(const std::filesystem::path& folder, uint64_t most_bytes);

}  // namespace penstock
