// TreeScatter: the gradients of parameters that are whole only while they are used, summed in one fixed tree (--exact).
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "train/parallel/exact/leaf_sums.h"
#include "train/parallel/exact/rank_sums.h"
#include "train/parallel/sharding/bucket_gradients.h"
#include "train/parallel/sharding/shard_layout.h"
#include "train/parallel/sharding/sharded_parameters.h"
#include "train/parallel/sync/pending_collectives.h"

namespace penstock::detail {

/// The bucket's k-th start() of a step takes the gradients of the rank's k-th leaf. They stay whole, as sums of the
/// tree, until the last leaf has come; then the bucket's partial sums go to the other ranks, of whose sums the slice
/// stays. So gradients are sent once per step.
///
/// Memory: as TreeSum has it, up to log2(leaves) + 1 times the gradients. With one leaf per rank, two buckets on their
/// way; with W > 2 ranks W times their gradients beside them. No other order of the collectives takes less: the ranks'
/// leaves lie side by side in the tree, so that between two micro-batches no sum over ranks is due.
class TreeScatter final : public BucketGradients {
 public:
  /// As ReduceScatterGradients. Requires a power of two of leaves.
  TreeScatter(std::vector<torch::Tensor> parameters, std::vector<ShardedBucket> buckets, Comm& comm,
              PendingCollectives& works, int leaf_count);

  void reset() override;
  void start(size_t bucket) override;
  void finish() override { ranks_.land(); }
  std::vector<torch::Tensor> buffers() const override;
  int64_t peak_bytes() const override { return peak_bytes_; }

 private:
  void note_peak();

  std::vector<ShardedBucket> buckets_;  // they share their tensors with those of the update
  PendingCollectives& works_;
  LeafSums leaves_;
  RankSums ranks_;
  int leaf_count_;
  std::vector<int> next_leaf_;  // one entry per bucket
  int64_t peak_bytes_ = 0;
};

/// For the sharded parameters of `part`: one pass per leaf of this rank, whose gradients a TreeScatter sums. With no
/// leaf (without --exact) the default. `comm` outlives them.
Passes tree_passes(const ModelPart& part, Comm& comm, int leaf_count);

}  // namespace penstock::detail
