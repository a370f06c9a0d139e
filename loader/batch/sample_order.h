// SampleOrder: which samples of a data set stand at which positions of an epoch, for one rank.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

#include "loader/batch/loader_options.h"
#include "loader/order/order.h"
#include "loader/order/partition.h"
#include "loader/shards/dataset.h"

namespace penstock {

/// How the loader with these options divides an epoch over steps and ranks. Throws config_error as Partition does, and
/// where rank-local shuffling has fewer shards than ranks.
Partition partition_of(const Dataset& dataset, const LoaderOptions& options);

/// Thread-safety: immutable after construction.
class SampleOrder {
 public:
  /// Throws what partition_of() throws.
  SampleOrder(const Dataset& dataset, const LoaderOptions& options);

  const Partition& partition() const { return partition_; }
  Order order_of(int64_t epoch) const;
  /// The index in the data set. `order` is order_of() of the epoch. Requires a position of this rank.
  uint64_t index_at(const Order& order, uint64_t position) const {
    const uint64_t local = order.at(position - first_position_);
    if (spans_.empty()) return local;
    const auto after = std::upper_bound(spans_.begin(), spans_.end(), local,
                                        [](uint64_t value, const Span& span) { return value < span.first_local; });
    const Span& span = *std::prev(after);
    return span.first_index + (local - span.first_local);
  }

 private:
  struct Span {  // the samples of a shard that rank-local shuffling gives to this rank
    uint64_t first_local, first_index;
  };

  uint64_t seed_;
  int rank_;
  Shuffle shuffle_;
  Partition partition_;
  std::vector<Span> spans_;      // one entry per shard of this rank; empty unless rank-local
  uint64_t first_position_ = 0;  // this rank's first position; 0 unless rank-local
  uint64_t local_count_;         // samples that the order permutes
};

}  // namespace penstock
