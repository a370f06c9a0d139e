// LineEpoch: an epoch whose rows lie on a line, element by element, and are then shuffled.
#pragma once

#include <cstdint>

#include "loader/order/order.h"
#include "loader/samplers/sampler.h"

namespace penstock {

/// `Line` (GroupOrder, WeightedOrder) says which element has a tick of the line; an order of the ticks says which
/// position has which tick. Not shuffled, both are in their own order. Thread-safety: immutable.
template <class Line>
class LineEpoch final : public SampledEpoch {
 public:
  /// Requires that `line` outlives the epoch.
  LineEpoch(const Line& line, uint64_t rows, uint64_t seed, int64_t epoch, bool is_shuffled)
      : line_(line, rows, seed, static_cast<uint64_t>(epoch), is_shuffled),
        order_(is_shuffled ? Order::shuffled(rows, seed, static_cast<uint64_t>(epoch)) : Order::sequential(rows)) {}
  Draw at(uint64_t position) const override { return line_.at(order_.at(position)); }

 private:
  typename Line::Epoch line_;
  Order order_;
};

}  // namespace penstock
