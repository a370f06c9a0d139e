// SampleOrder: which samples of a data set stand at which positions of an epoch, for one rank.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/mutex.h"
#include "loader/order/order.h"
#include "loader/order/partition.h"
#include "loader/order/shard_order.h"
#include "loader/rows/loader_options.h"
#include "loader/samplers/sampler.h"
#include "loader/shards/dataset.h"

namespace penstock {

class ShardWindow;

/// How the loader with these options divides an epoch over steps and ranks. Throws what SampleOrder throws.
Partition partition_of(const Dataset& dataset, const LoaderOptions& options);

/// A sample may occur several times in an epoch. The seed of the random numbers of copy `copy`; copy 0 has the loader's
/// own.
uint64_t seed_of_copy(uint64_t seed, uint32_t copy);

/// The order of one epoch. It must not outlive its SampleOrder.
struct EpochOrder {
  Order order;                                       // of a sampler's epoch it is not used
  std::shared_ptr<const SampledEpoch> sampled = {};  // shared with the SampleOrder, which keeps it; null: no sampler
};

/// Thread-safety: const members may be called by several threads.
class SampleOrder {
 public:
  /// Throws config_error as Partition does, where rank-local shuffling has fewer shards than ranks or is asked for a
  /// subset or a sampler, where Shuffle::shards() is asked for a sampler or has more lanes than a batch has rows, and
  /// what subsets and samplers throw.
  SampleOrder(const Dataset& dataset, const LoaderOptions& options);

  const Partition& partition() const { return *partition_; }
  EpochOrder order_of(int64_t epoch) const;

  /// Whether index_at() may be asked: there is neither a subset nor a sampler, nor a window of shards.
  bool is_plain() const { return !subset_ && !sampler_; }
  /// The index in the data set. `order` is order_of() of the epoch. Requires a position of this rank, and is_plain().
  uint64_t index_at(const EpochOrder& order, uint64_t position) const {
    const uint64_t local = order.order.at(position - first_position_);
    if (spans_.empty()) return local;
    const auto after = std::upper_bound(spans_.begin(), spans_.end(), local,
                                        [](uint64_t value, const Span& span) { return value < span.first_local; });
    const Span& span = *std::prev(after);
    return span.first_index + (local - span.first_local);
  }
  /// Whether the order uses part of the shards at a time, which shard_uses() tells.
  bool has_window() const { return window_ != nullptr; }
  struct Place {
    uint64_t index;
    uint32_t copy;  // how many of this sample come before it in the epoch; it says which random numbers are its own
  };
  /// The same for any order.
  Place place_at(const EpochOrder& order, uint64_t position) const;

  uint64_t size() const { return local_count_; }  ///< Samples that this rank's epochs may have.
  /// The index of the k-th of them, in ascending order.
  uint64_t index_of(uint64_t k) const;
  /// The indices, in ascending order, of the samples that subset and exclude-ids have left; null without them.
  const std::vector<uint64_t>* subset() const { return subset_ ? &*subset_ : nullptr; }
  uint64_t rows() const { return rows_; }  ///< Per epoch, over all ranks and before the tail.

  /// The stretches of an epoch in which this rank needs each shard, in the order of their first positions: as
  /// ShardWindow::uses() says, with Shuffle::kNone each shard once, and with any other order each shard of this rank
  /// for the whole epoch. A pure function of the order.
  std::vector<ShardUse> shard_uses(const Dataset& dataset, int64_t epoch) const;

  /// For people: which samples, how often, and with Shuffle::shards() how they are mixed; "" for all of them, once.
  std::string text() const;
  /// What ranks of a run and a run that is resumed compare: it names options and has a checksum of what they choose. ""
  /// for all samples, once.
  std::string identity(const Dataset& dataset) const;

 private:
  struct Span {  // the samples of a shard that rank-local shuffling gives to this rank
    uint64_t first_local, first_index;
  };
  void add_spans(const Dataset& dataset, const LoaderOptions& options);

  uint64_t seed_;
  int rank_, world_size_;
  Shuffle shuffle_;
  std::optional<Partition> partition_;
  std::vector<Span> spans_;                      // one entry per shard of this rank; empty unless rank-local
  uint64_t first_position_ = 0;                  // this rank's first position; 0 unless rank-local
  uint64_t local_count_, rows_;                  // samples that the order permutes; rows per epoch
  std::string names_;                            // of the options that choose samples
  std::optional<std::vector<uint64_t>> subset_;  // indices, ascending
  std::shared_ptr<const std::vector<double>> weights_;
  std::unique_ptr<const Sampler> sampler_;
  const ShardWindow* window_ = nullptr;  // the sampler, where it is one; it is no sampler that a user has named
  struct Kept {
    int64_t epoch = -1;
    std::shared_ptr<const SampledEpoch> sampled;
  };
  mutable Mutex mutex_;
  // Workers may be at the end of one epoch and at the begin of the next.
  mutable std::array<Kept, 2> kept_ PENSTOCK_GUARDED_BY(mutex_);
};

}  // namespace penstock
