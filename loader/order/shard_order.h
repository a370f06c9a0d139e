// ShardOrder: a random order of all samples in which few shards are in use at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "loader/order/order.h"
#include "loader/order/shuffle.h"

namespace penstock {

/// A stretch of an epoch in which one shard is in use.
struct ShardUse {
  uint32_t shard = 0;
  uint64_t first = 0, last = 0;  // positions of the first and of the last sample that is taken from it
  bool operator==(const ShardUse&) const = default;
};

/// An order of elements that lie in shards, such that at most `window` shards are in use at a time.
///
///     axis:    all shards of the set, in an order that is drawn anew for every epoch, one after the other
///     lanes:   with batches of B rows and C lanes, lane c has the rows [cB/C, (c+1)B/C) of every batch, both bounds
///              rounded down (of a last batch of n rows, [cn/C, (c+1)n/C)), and as long a stretch of the axis as all
///              these rows need
///     slots:   a lane's stretch is cut into K pieces of equal length, to one row: one slot each
///     groups:  K rows of a lane that follow each other have one element of each slot, in an order drawn for the group;
///              group g has the g-th of each slot's piece
///     rows:    the elements of a shard have an order of their own, drawn for the epoch
///
///     one lane, K = 3 slots    group   0 1 2 3 4 5 6 7 8 ...
///                              slot 0  a a a a a b b b b       a, b, ...: shards of five elements. A slot begins
///                              slot 1  d e e e e e f f f       anywhere in a shard, so that the slots go on to new
///                              slot 2  g g g h h h h h i       shards one after the other, and not all at once.
///
/// K is the largest number of at most V / C, for a window of V, that has no common factor with S / C, for S shards
/// (rounded): then equal shards end at different groups in all slots of a lane. C K shards are therefore in use at a
/// time. A shard in which a slot begins is used twice, at the beginning and at the end of the epoch; there are C (K -
/// 1) of them at most, and C - 1 that two lanes share.
///
/// With W ranks, W dividing C, every rank has lanes of its own, and reads the shards of no other, but for the C - 1.
///
/// Determinism: depends on (sizes, window, lanes, batch size, seed, epoch), and on integers alone.
/// Memory: 8 bytes per shard; an epoch has 12 more. Thread-safety: immutable after construction.
class ShardOrder {
 public:
  /// Changes whenever an epoch has another order than before, so that runs that are resumed notice it.
  static constexpr int kVersion = 2;

  /// `sizes`: elements of each shard, of which element 0 is the first of shard 0. Requires lanes >= 1, window >= lanes
  /// and batch_size >= 1.
  ShardOrder(const std::vector<uint64_t>& sizes, int window, int lanes, uint64_t batch_size, uint64_t seed);

  uint64_t size() const { return begins_.back(); }
  size_t shard_count() const { return begins_.size() - 1; }  ///< Also those without elements.
  uint64_t elements_of(size_t shard) const { return begins_[shard + 1] - begins_[shard]; }
  uint64_t used_shard_count() const { return used_count_; }  ///< Those with elements.
  uint64_t slots_per_lane() const { return slots_; }         ///< K.
  int lanes() const { return static_cast<int>(lanes_); }
  uint64_t batch_size() const { return batch_size_; }

  /// One epoch. It must not outlive its ShardOrder. Costs O(shards) to make.
  class Epoch {
   public:
    Epoch(const ShardOrder& order, uint64_t epoch);
    uint64_t at(uint64_t position) const;  ///< The element there. O(log shards). Requires position < size().
    /// All uses of shards by the lanes [first_lane, end_lane), in the order of their first positions. A pure function
    /// of the order: what a cache has to fetch next, and when it may drop what. O(shards log shards).
    std::vector<ShardUse> uses(int first_lane, int end_lane) const;

   private:
    struct Lane {
      uint64_t begin, length;  // on the axis
      uint64_t width;          // rows in a full batch
      uint64_t groups, rest;   // full groups, and rows of a last one that is not full
      uint64_t start(uint64_t slot) const { return slot * groups + (slot < rest ? slot : rest); }  // from `begin`
    };
    Lane lane_of(uint64_t number, uint64_t begin) const;
    Order slot_order(uint64_t lane, uint64_t group) const;
    Order row_order(uint32_t shard) const;
    uint64_t position_in(uint64_t lane, uint64_t slot, uint64_t group) const;
    uint64_t first_row(uint64_t lane, uint64_t rows) const;  // of the lane in a batch of this many rows

    const ShardOrder& order_;
    uint64_t epoch_;
    uint64_t full_batches_, last_rows_;
    std::vector<uint32_t> shards_;  // the shard at each place of the axis
    std::vector<uint64_t> begins_;  // one entry per place: where its shard begins on the axis; and the end
    std::vector<Lane> lanes_;
  };

 private:
  std::vector<uint64_t> begins_;  // one entry per shard: its first element; and the whole
  uint64_t lanes_, batch_size_, seed_, used_count_ = 0, slots_ = 1;
};

}  // namespace penstock
