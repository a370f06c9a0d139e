// Sharded update: every rank changes its slices of the parameters alone, and has the optimiser's state of these alone.
#pragma once

#include <memory>
#include <vector>

#include "train/parallel/sharding/shard_layout.h"
#include "train/parallel/strategy/update.h"

namespace penstock::detail {

/// Each rank changes its slice of every bucket and has the state of that slice alone; then the slices are gathered
/// (Rajbhandari et al. 2020, "ZeRO", sec. 5.1, stage 1). Buckets are those of `bucket_gradients`, padded to a multiple
/// of the ranks. Memory per rank: parameters and gradients whole, the optimiser's state 1 / N.
///
/// The memory of the parameters moves into the buckets, and stays there. With `shared`, which make_scatter_sync()
/// needs, the buckets are also given out there, with a slice of the gradients each; the update then uses these
/// gradients and not those of the parameters.
std::unique_ptr<Update> make_sharded_update(const UpdateContext& context,
                                            const std::shared_ptr<std::vector<ShardedBucket>>& shared = nullptr);

/// The same for buckets that hold only this rank's slices, of parameters and of gradients: nothing is gathered. Their
/// members are indices into `context.trained`.
std::unique_ptr<Update> make_shard_update(const UpdateContext& context, const std::vector<ShardedBucket>& buckets);

}  // namespace penstock::detail
