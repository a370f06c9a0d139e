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

/// The k-th start() of a bucket in a step takes the gradients of the rank's k-th leaf. They stay whole, as partial sums
/// of the tree, until the last leaf has come. Then the ranks add their partial sums, and each keeps its slice of the
/// result. So gradients are sent once per step.
///
/// Memory: with several leaves per rank up to log2(leaves) + 1 times the gradients, as PairwiseSum has it; with one
/// leaf two buckets on their way. With W > 2 ranks W times the gradients of these buckets besides. No other order of
/// the collectives takes less: the leaves of a rank are neighbours in the tree, so that no sum over ranks is due before
/// all of them have come.
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

/// The passes of ShardedParameters over `part`: one per leaf of this rank, with a TreeScatter that sums their
/// gradients. With 0 leaves (without --exact) the default. `comm` outlives them.
Passes tree_passes(const ModelPart& part, Comm& comm, int leaf_count);

}  // namespace penstock::detail
