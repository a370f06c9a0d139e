// ShardedState: what a rank keeps in shards, and the parts of a step that work on them.
#pragma once

#include <memory>
#include <vector>

#include "train/parallel/sharding/sharded_parameters.h"
#include "train/parallel/strategy/mesh.h"
#include "train/parallel/strategy/update.h"

namespace penstock::detail {

/// The shards of one rank's parameters, which a store, an update and a gradient sync share. They are made in this
/// order: the store, where parameters are sharded; the update, which puts the other parameters into buckets; the sync.
///
/// Errors: bug_error for one that is made before what it needs. Thread-safety: the training thread's alone.
class ShardedState {
 public:
  explicit ShardedState(const ShardedKinds& kinds) : kinds_(kinds) {}

  /// For kinds with parameters, which are in shards from now on.
  std::shared_ptr<ParameterStore> make_store(const ModelPart& part, Comm& comm, Recorder& recorder,
                                             const Passes& passes);
  /// Each rank changes its slice of every bucket and has the optimiser's state of that slice alone. Parameters that are
  /// not sharded move into the buckets of `assign_buckets()`, padded to a multiple of the ranks, where they stay; their
  /// slices are gathered after each step (Rajbhandari et al. 2020, "ZeRO", sec. 5.1, stage 1). Where gradients are
  /// sharded the buckets get slices of gradients, which the update takes in place of those of the parameters.
  std::unique_ptr<Update> make_update(const UpdateContext& context);

  /// For the sync: what make_store() and make_update() have made.
  std::shared_ptr<ShardedParameters> parameters() const;
  const std::vector<ShardedBucket>& buckets() const;

 private:
  ShardedKinds kinds_;
  std::shared_ptr<ShardedParameters> parameters_;  // null until make_store()
  std::vector<ShardedBucket> buckets_;             // of the trained parameters
  bool has_buckets_ = false;
};

}  // namespace penstock::detail
