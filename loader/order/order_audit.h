// Order audit: how well an order mixes, batch by batch, and what it costs to read.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "loader/order/shard_order.h"

namespace penstock {

/// An order and what is known of its elements, which lie in shards one after the other.
struct AuditedOrder {
  std::function<uint64_t(uint64_t position)> at;      ///< The element.
  std::function<int64_t(uint64_t element)> label_of;  ///< -1: no class.
  std::vector<uint64_t> shard_begins;                 ///< The first element of each shard; and the number of all.
  std::vector<uint64_t> class_counts;                 ///< Elements of each class; empty: there are no classes.
  uint64_t batch_size = 1;

  uint64_t rows() const { return shard_begins.back(); }
  uint64_t full_batches() const { return rows() / batch_size; }
};

/// Means over full batches. A value of -1 cannot be told: of chi^2 without two classes, of correlation with one row.
struct MixFigures {
  double shards = 0;            ///< Different shards in a batch.
  double same_shard_pairs = 0;  ///< Pairs of rows of a batch that are of the same shard.
  /// Chi^2 of the classes in a batch against their shares of the data set, per degree of freedom: 1 where rows are
  /// drawn at random, more where a batch has too many of some classes and too few of others.
  double class_chi2 = -1;
  /// How far from its place in the stored order a sample stands, as a share of the epoch: the median and two quantiles.
  double moved_p50 = 0, moved_p90 = 0, moved_p99 = 0;
  double correlation = -1;  ///< Positions with places in the stored order, by their ranks (Spearman 1904).
};

/// The figures of batches [begin, end). Requires begin < end <= full_batches(). Costs about 0.5 us per row.
MixFigures mix_figures(const AuditedOrder& order, uint64_t begin, uint64_t end);

/// What mix_figures() is on average for the full shuffle, from formulas.
MixFigures expected_figures(const AuditedOrder& order, uint64_t begin, uint64_t end);

/// What ranks that are nodes of their own have to read in an epoch.
struct ReadFigures {
  double dropped = 0;       ///< Reads per shard, over all nodes, where a node drops a shard after each use.
  double kept = 0;          ///< The same where a node keeps what it has read to the end of the epoch.
  uint64_t held_bytes = 0;  ///< The most bytes of shards in use at a time on one node.
  uint64_t held_shards = 0;
  uint64_t first = 0, burst = 0;  ///< Shards that begin to be used in the first batch, and in a later one at most.
};

/// `uses`: one entry per node, as SampleOrder::shard_uses() gives them. `shard_bytes`: one entry per shard.
ReadFigures read_figures(const std::vector<std::vector<ShardUse>>& uses, const std::vector<uint64_t>& shard_bytes,
                         uint64_t batch_size);

/// Reads per shard of the full shuffle, over `nodes` nodes of which each keeps `held` shards: about held / shards of
/// those that its rows of a batch are of.
double full_shuffle_reads(const AuditedOrder& order, uint64_t held, uint64_t nodes);

}  // namespace penstock
