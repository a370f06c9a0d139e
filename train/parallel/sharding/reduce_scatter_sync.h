// ReduceScatterGradients: the gradients of a bucket go where they are summed, and their memory is given back.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "train/parallel/sharding/bucket_gradients.h"
#include "train/parallel/sharding/shard_layout.h"
#include "train/parallel/strategy/gradient_sync.h"
#include "train/parallel/sync/pending_collectives.h"

namespace penstock::detail {

/// Each backward of a bucket is a sum of its own. Thread-safety: that of its caller.
class ReduceScatterGradients final : public BucketGradients {
 public:
  /// Requires that `buckets` have their `gradient` and name `parameters` by their indices. `works` outlives this.
  ReduceScatterGradients(std::vector<torch::Tensor> parameters, std::vector<ShardedBucket> buckets, Comm& comm,
                         PendingCollectives& works);
  void reset() override;
  /// Starts the sum over the ranks, which arrives in the bucket's `gradient`. Memory: the flat bucket, until its work
  /// was waited for.
  void start(size_t bucket) override;
  std::vector<torch::Tensor> buffers() const override;
  int64_t peak_bytes() const override { return peak_bytes_; }

 private:
  std::vector<torch::Tensor> gradients() const;

  std::vector<torch::Tensor> parameters_;
  std::vector<ShardedBucket> buckets_;  // they share their tensors with those of the update
  Comm& comm_;
  PendingCollectives& works_;
  int64_t peak_bytes_ = 0;
};

/// As make_bucket_sync(), but each bucket is reduce-scattered into its `gradient`, and its gradients are given back at
/// once (Rajbhandari et al. 2020, "ZeRO", sec. 5.2, stage 2): whole gradients are alive from the backward of a layer to
/// the sum of its bucket, and no more than two buckets are on their way. Requires the
/// ShardedState::buckets() of the same `trained`.
std::unique_ptr<GradientSync> make_reduce_scatter_sync(const SyncContext& context,
                                                       const std::vector<ShardedBucket>& buckets);

}  // namespace penstock::detail
