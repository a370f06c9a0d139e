// TreeSync: gradients of single micro-batches, summed over micro-batches and ranks in one fixed tree (--exact).
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "train/parallel/sharding/shard_layout.h"
#include "train/parallel/strategy/gradient_sync.h"

namespace penstock::detail {

/// Sums gradients over all micro-batches of all ranks of `comm`. Micro-batch j of rank r is leaf r * backward_count + j
/// of one PairwiseSum, so that the bits are the same however the leaves are divided over ranks. Requires that the
/// numbers of ranks and of micro-batches are powers of two. Memory: each gradient up to log2(backward_count) + 1 times,
/// if backwards come in order.
///
///     time ->        4 micro-batches per rank; b0 holds the last layers
///     compute        | F0 B0 | F1 B1 | F2 B2 | F3 | grad b0 | grad b1 | wait | update
///     communication                                         | sum b0  | sum b1 |
///
/// As with make_bucket_sync(), a bucket is sent as soon as its last gradient is there. RankSums says how the ranks'
/// sums are added.
std::unique_ptr<GradientSync> make_tree_sync(const SyncContext& context);

/// The same, but each rank keeps only its slice of the sums, as with make_reduce_scatter_sync().
std::unique_ptr<GradientSync> make_tree_scatter(const SyncContext& context, const std::vector<ShardedBucket>& buckets);

/// The same for one rank whose backward leaves no gradients in the parameters (replicas). After each backward `collect`
/// must put them there; `reset` leaves none anywhere.
std::unique_ptr<GradientSync> make_collected_tree(const SyncContext& context, std::function<void()> collect,
                                                  std::function<void()> reset);

}  // namespace penstock::detail
