// GroupOrder: how many rows of an epoch each group has, and which elements of the group they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "loader/order/order.h"
#include "loader/order/ticks.h"
#include "loader/order/weighted_order.h"

namespace penstock {

/// Groups of elements with integer weights; the elements of group g are those from begin(g) to begin(g + 1). In an
/// epoch of E rows a group has E * w[g] / sum(w) rows, rounded down or up, and inside of it every element occurs
/// equally often, or once more than another.
///
/// Memory: 16 bytes per group; an epoch has 150 more. Thread-safety: immutable after construction.
class GroupOrder {
 public:
  /// Requires as many sizes as weights, a sum of each of 1 to 2^63 - 1, and weight 0 where the size is 0.
  GroupOrder(const std::vector<uint64_t>& sizes, const std::vector<uint64_t>& weights);

  size_t group_count() const { return begins_.size() - 1; }
  uint64_t begin(size_t group) const { return begins_[group]; }

  class Epoch {
   public:
    /// Not shuffled, the elements of a group are in their own order.
    Epoch(const GroupOrder& order, uint64_t rows, uint64_t seed, uint64_t epoch, bool is_shuffled);
    /// O(log groups). Requires tick < rows. Ticks of a group follow each other.
    Draw at(uint64_t tick) const;
    uint64_t rows_of(size_t group) const { return groups_[group].ticks.count; }

   private:
    struct Group {
      uint64_t first_tick, begin;
      Ticks ticks;  // over the group's elements
      Order order;
    };
    std::vector<Group> groups_;
  };

 private:
  std::vector<uint64_t> begins_, sums_;  // of elements and of weights: one entry per group, and the whole
};

}  // namespace penstock
