// victims(): which shards leave a cache that has no room.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "loader/cache/cache_options.h"

namespace penstock::detail {

/// When a shard is needed next, counted in shards from now on; nothing if that is not known to be ever.
using NextUse = std::function<std::optional<uint64_t>(const std::string& xxh3)>;

/// `shards` in the order in which they should go: first those of which no next use is known, the least recently used
/// one first; then by next use, the latest one first (Belady 1966). Where no order is known all are of the first kind.
std::vector<CachedShard> victims(std::vector<CachedShard> shards, const NextUse& next_use);

}  // namespace penstock::detail
