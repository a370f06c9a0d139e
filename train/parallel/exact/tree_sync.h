// TreeSync: gradients of single micro-batches, summed over micro-batches and ranks in one fixed tree (--exact).
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "train/parallel/sharding/shard_layout.h"
#include "train/parallel/strategy/gradient_sync.h"

namespace penstock::detail {

/// The sum over all micro-batches of all ranks of `comm`, where micro-batch j of rank r is leaf r * backward_count + j
/// of one TreeSum: the same bits for any division of the leaves into ranks. Requires powers of two. The memory of a
/// gradient is as often alive as the tree needs, log2(backward_count) + 1 times at most if backwards come in order.
///
///     time ->        4 micro-batches per rank; b0 holds the last layers
///     compute        | F0 B0 | F1 B1 | F2 B2 | F3 | grad b0 | grad b1 | wait | update
///     communication                                         | sum b0  | sum b1 |
///
/// As with make_bucket_sync() a bucket is on its way as soon as its last gradient is there. RankSums says how ranks add
/// theirs.
std::unique_ptr<GradientSync> make_tree_sync(const NamedTensors& trained, Comm& comm, Recorder& recorder,
                                             int backward_count);

/// The same, but only slices of the sums stay, as with make_scatter_sync().
std::unique_ptr<GradientSync> make_tree_scatter(const NamedTensors& trained, Comm& comm, Recorder& recorder,
                                                int backward_count, const std::vector<ShardedBucket>& buckets);

/// For one rank whose gradients are there only when `collect` has been called after each backward; `reset` leaves none.
std::unique_ptr<GradientSync> make_collected_tree(const NamedTensors& trained, int backward_count,
                                                  std::function<void()> collect, std::function<void()> reset);

}  // namespace penstock::detail
