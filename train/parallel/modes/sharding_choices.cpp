// Slice choices: an update of slices, and the sync that brings it their gradients.
#include "train/parallel/modes/sharding_choices.h"

#include "train/parallel/exact/tree_sync.h"
#include "train/parallel/sharding/reduce_scatter_sync.h"
#include "train/parallel/sharding/sharded_update.h"
#include "train/parallel/sync/bucket_sync.h"

namespace penstock::detail {

void slice_state(StepConfig& choices) {
  choices.sliced = {.optimizer = true};
  choices.sync = choices.mesh.shards > 0 ? make_tree_sync : make_bucket_sync;
  choices.update = [](const auto& update) { return make_sharded_update(update); };
}

void slice_gradients(StepConfig& choices) {
  const auto buckets = std::make_shared<std::vector<ShardedBucket>>();
  choices.sliced = {.gradients = true, .optimizer = true};
  choices.update = [buckets](const auto& update) { return make_sharded_update(update, buckets); };
  const auto make_sync = choices.mesh.shards > 0 ? make_tree_scatter : make_scatter_sync;
  choices.sync = [buckets, make_sync](const auto& trained, Comm& data, Recorder& recorder, int backward_count) {
    return make_sync(trained, data, recorder, backward_count, *buckets);
  };
}

}  // namespace penstock::detail
