// WeightedOrder: a line of elements, as long as their weights, and the ticks of an epoch on it.
#pragma once

#include <cstdint>
#include <vector>

#include "loader/order/ticks.h"

namespace penstock {

/// An element of a sampler's set, and how many times the epoch has drawn it before in the order of the ticks: 0 for the
/// first time.
struct Draw {
  uint64_t element = 0;
  uint32_t copy = 0;
  bool operator==(const Draw&) const = default;
};

/// Elements 0, 1, ... with integer weights. In an epoch of E rows, element i is drawn E * w[i] / sum(w) times, rounded
/// down or up, and E rows are drawn in all (Ticks).
///
/// In each epoch the elements lie on the line in another order, so that those that are drawn less than once per epoch
/// do not always come together: kBlock neighbours stay together, and a permutation of the blocks puts them anywhere.
///
/// Memory: 8 bytes per element; an epoch has 1.25 bytes more. Thread-safety: immutable after construction.
class WeightedOrder {
 public:
  static constexpr uint64_t kBlock = 16;

  /// Requires a sum of weights of 1 to 2^63 - 1, and fewer than 2^36 weights.
  explicit WeightedOrder(std::vector<uint64_t> weights);

  uint64_t size() const { return weights_.size(); }
  uint64_t weight_sum() const { return sum_; }
  uint64_t weight(uint64_t element) const { return weights_[element]; }

  /// The line of an epoch. It reads the weights of its WeightedOrder, which must outlive it.
  class Epoch {
   public:
    /// `rows` ticks; not shuffled, the blocks are in their own order.
    Epoch(const WeightedOrder& order, uint64_t rows, uint64_t seed, uint64_t epoch, bool is_shuffled);
    /// O(log size). Requires tick < rows.
    Draw at(uint64_t tick) const;

   private:
    const WeightedOrder& order_;
    Ticks ticks_;
    std::vector<uint32_t> blocks_;  // one entry per place on the line: the block there
    std::vector<uint64_t> begins_;  // one entry per place: the unit at which it begins
    // Entry g is the place on the line that holds unit g * 2^shift_; one more entry, for the end, is the last place.
    // There are about as many as places, so that a search has few left: 5 cache misses per row and not 20.
    std::vector<uint32_t> guide_;
    int shift_;
  };

 private:
  std::vector<uint64_t> weights_, block_sums_;
  uint64_t sum_ = 0;
};

}  // namespace penstock
