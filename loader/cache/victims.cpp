// victims(): by next use, then by last use.
#include "loader/cache/victims.h"

#include <algorithm>
#include <tuple>

namespace penstock::detail {

std::vector<CachedShard> victims(std::vector<CachedShard> shards, const NextUse& next_use) {
  std::stable_sort(shards.begin(), shards.end(), [&](const CachedShard& a, const CachedShard& b) {
    const auto key = [&](const CachedShard& shard) {
      const auto next = next_use(shard.xxh3);
      return std::tuple(next.has_value(), next ? ~*next : uint64_t{0}, shard.used_ns);
    };
    return key(a) < key(b);
  });
  return shards;
}

}  // namespace penstock::detail
