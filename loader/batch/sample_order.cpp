// SampleOrder and partition_of(): shards that belong to ranks, or one order for all of them.
#include "loader/batch/sample_order.h"

#include "core/error.h"
#include "core/text.h"

namespace penstock {
namespace {

/// Samples of each rank when shards belong to ranks; one entry per rank.
std::vector<uint64_t> rank_sizes_of(const Dataset& dataset, int world_size) {
  std::vector<uint64_t> sizes(static_cast<size_t>(world_size));
  for (int shard = 0; shard < dataset.shard_count(); ++shard)
    sizes[static_cast<size_t>(shard % world_size)] += dataset.shard_begin(shard + 1) - dataset.shard_begin(shard);
  return sizes;
}

}  // namespace

Partition partition_of(const Dataset& dataset, const LoaderOptions& options) {
  if (options.shuffle != Shuffle::kRankLocal)
    return {dataset.size(), options.batch_size, options.rank, options.world_size, options.tail, options.short_batch};
  if (dataset.shard_count() < options.world_size) {
    throw config_error(
        concat("loader: rank-local shuffling of ", dataset.shard_count(), " shards over ", options.world_size,
               " ranks; expected a shard or more for each rank: pack with more --shards, or shuffle globally"));
  }
  return Partition::rank_local(rank_sizes_of(dataset, options.world_size), options.batch_size, options.rank,
                               options.tail);
}

SampleOrder::SampleOrder(const Dataset& dataset, const LoaderOptions& options)
    : seed_(options.seed),
      rank_(options.rank),
      shuffle_(options.shuffle),
      partition_(partition_of(dataset, options)),
      local_count_(dataset.size()) {
  if (shuffle_ != Shuffle::kRankLocal) return;
  const auto rank_sizes = rank_sizes_of(dataset, options.world_size);
  local_count_ = 0;
  for (int shard = options.rank; shard < dataset.shard_count(); shard += options.world_size) {
    spans_.push_back({local_count_, dataset.shard_begin(shard)});
    local_count_ += dataset.shard_begin(shard + 1) - dataset.shard_begin(shard);
  }
  for (int rank = 0; rank < options.rank; ++rank) first_position_ += rank_sizes[static_cast<size_t>(rank)];
}

Order SampleOrder::order_of(int64_t epoch) const {
  if (shuffle_ == Shuffle::kNone) return Order::sequential(local_count_);
  // Ranks that shuffle their own shards must not all use one permutation.
  const uint64_t rank_key = shuffle_ == Shuffle::kRankLocal ? (static_cast<uint64_t>(rank_) + 1) << 32 : 0;
  return Order::shuffled(local_count_, seed_, static_cast<uint64_t>(epoch) | rank_key);
}

}  // namespace penstock
