// Sharding config: one ShardedState per step, whose parts the engine makes in their order.
#include "train/parallel/modes/sharding_config.h"

#include <memory>

#include "train/parallel/exact/tree_scatter.h"
#include "train/parallel/exact/tree_sync.h"
#include "train/parallel/sharding/reduce_scatter_sync.h"
#include "train/parallel/sharding/sharded_state.h"
#include "train/parallel/sync/bucket_sync.h"

namespace penstock::detail {
namespace {

std::shared_ptr<ShardedState> shard(StepConfig& config, const ShardedKinds& kinds) {
  const auto state = std::make_shared<ShardedState>(kinds);
  config.sharded = kinds;
  config.update = [state](const auto& update) { return state->make_update(update); };
  return state;
}

}  // namespace

void shard_optimizer_state(StepConfig& config) {
  shard(config, {.optimizer = true});
  config.sync = config.mesh.shards > 0 ? make_tree_sync : make_bucket_sync;
}

void shard_gradients(StepConfig& config) {
  const auto state = shard(config, {.gradients = true, .optimizer = true});
  const auto make_sync = config.mesh.shards > 0 ? make_tree_scatter : make_reduce_scatter_sync;
  config.sync = [state, make_sync](const auto& sync) { return make_sync(sync, state->buckets()); };
}

void shard_parameters(StepConfig& config) {
  const auto state = shard(config, {.parameters = true, .gradients = true, .optimizer = true});
  const int leaf_count = config.mesh.shards > 0 ? config.micro_batches : 0;
  config.store = [state, leaf_count](const auto& part, Comm& data, Recorder& recorder) {
    return state->make_store(part, data, recorder, tree_passes(part, data, leaf_count));
  };
  config.sync = [state](const auto&) { return make_shard_sync(state->parameters()); };
}

}  // namespace penstock::detail
