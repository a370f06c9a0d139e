// Far rate: how fast one node would load data over a link, from its rate with all data in memory.
#pragma once

#include <cstdint>
#include <optional>

#include "loader/bottleneck/bottleneck_model.h"
#include "loader/far/sim_link.h"
#include "loader/order/shuffle.h"

namespace penstock {

/// A data set, which need not be packed yet, and the nodes that read it.
struct FarSet {
  uint64_t image_count = 0;
  double image_bytes = 0;              ///< Stored per image.
  int shard_count = 1;                 ///< All of one size.
  Shuffle shuffle = Shuffle::kGlobal;  ///< kGlobal or Shuffle::shards().
  int64_t batch_size = 64;             ///< All nodes together, which have equal shares of it.
  int nodes = 1;                       ///< Each has a link and a cache of its own.

  double shard_bytes() const;
  double batches() const;  ///< Per epoch.
};

/// What one node fetches for its share of a batch: the mean of an epoch.
struct LinkLoad {
  double requests = 0, bytes = 0;
  bool is_ahead = false;  ///< Before anybody waits for it.
};

/// Without a cache: every image when it is needed, as from a file system of the network.
LinkLoad load_of_images(const FarSet& set);

/// Whole shards, as from addresses, with a cache of this many bytes on every node that keeps them from epoch to epoch:
/// in the first epoch, which finds it empty, and in later ones. Computed from the order (cache_model.h).
struct ShardLoads {
  LinkLoad first, later;
};
/// Nothing where the cache has no room for the shards that the order uses at a time. Throws config_error where a batch
/// has fewer rows than lanes. Costs a few sorts of the shards.
std::optional<ShardLoads> load_of_shards(const FarSet& set, uint64_t cache_bytes);

struct FarRate {
  double images_per_second = 0;  ///< The rate of one node.
  Resource bound = Resource::kLoad;
};
/// The model of the sentence (predicted_step_ms()) for a loop that does nothing but take batches. `in_memory` is the
/// rate of one node with `workers` workers and all data in memory, above 0. Requires workers >= 1.
FarRate far_rate(const FarSet& set, const LinkLoad& load, const LinkSpeed& link, int workers, double in_memory);

}  // namespace penstock
