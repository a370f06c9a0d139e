// What the link has to bring with a cache of a given size: computed from the order, not guessed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "loader/batch/loader.h"
#include "loader/bottleneck/bottleneck_model.h"
#include "loader/shards/dataset.h"

namespace penstock {

namespace detail {

/// Shards that are fetched in the last of the epochs of `uses` (one entry per epoch, each in the order of the first
/// positions), with a cache that has room for `room` shards and keeps them from epoch to epoch. A shard is fetched at
/// its first position, `ahead` uses early, and stays until its last; when room is needed, of those that are not in use
/// the first one in the order of `names` goes (CacheFolder::mark_spent()). Requires one use or more in every epoch.
uint64_t fetched_shards(const std::vector<std::vector<ShardUse>>& uses, const std::vector<std::string>& names,
                        uint64_t room, uint64_t ahead);

/// The same per row for an order whose rows come from any shard: the share of rows whose shard is not among the `room`
/// of `shards` that are in the cache, whichever these are. No choice of what leaves does better where nothing is known
/// of what comes.
double missed_share(uint64_t room, uint64_t shards);

}  // namespace detail

/// Fills in cache_cases, for caches of eighths of the data set, where the run fetched from far away. Shards count with
/// their mean size. Costs a few sorts of the shards.
void ask_cache(LoopMeasurement& run, const Dataset& dataset, const LoaderOptions& options);

}  // namespace penstock
