// Sharded update: every rank changes its slices of the parameters alone, and has the optimiser's state of these alone.
#pragma once

#include <memory>
#include <vector>

#include "train/parallel/sharding/shard_layout.h"
#include "train/parallel/strategy/update.h"

namespace penstock::detail {

/// The update of this rank's slices of `buckets`, whose members count as `context.trained` does. It takes the gradients
/// of the buckets where these have them, otherwise those of the parameters. `gathers`: whether each `whole` has the new
/// parameters after Update::share(). See ShardedState::make_update().
std::unique_ptr<Update> make_sharded_update(const UpdateContext& context, std::vector<ShardedBucket> buckets,
                                            bool gathers);

}  // namespace penstock::detail
