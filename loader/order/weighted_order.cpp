// WeightedOrder: sums of blocks, and the search for a tick in two steps.
#include "loader/order/weighted_order.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "loader/order/mix.h"
#include "loader/order/order.h"

namespace penstock {

WeightedOrder::WeightedOrder(std::vector<uint64_t> weights) : weights_(std::move(weights)) {
  block_sums_.resize((weights_.size() + kBlock - 1) / kBlock);
  for (size_t i = 0; i < weights_.size(); ++i) block_sums_[i / kBlock] += weights_[i];
  for (const uint64_t sum : block_sums_) sum_ += sum;
}

WeightedOrder::Epoch::Epoch(const WeightedOrder& order, uint64_t rows, uint64_t seed, uint64_t epoch, bool is_shuffled)
    : order_(order),
      ticks_{rows, order.sum_, detail::scaled_below(detail::keyed_bits(seed, epoch), order.sum_)},
      blocks_(order.block_sums_.size()),
      begins_(order.block_sums_.size()) {
  const auto places = is_shuffled ? Order::shuffled(blocks_.size(), detail::keyed_bits(seed, ~uint64_t{0}), epoch)
                                  : Order::sequential(blocks_.size());
  uint64_t begin = 0;
  for (size_t place = 0; place < blocks_.size(); ++place) {
    const uint64_t block = places.at(place);
    blocks_[place] = static_cast<uint32_t>(block);
    begins_[place] = begin;
    begin += order.block_sums_[block];
  }
  shift_ = std::max(0, static_cast<int>(std::bit_width(order.sum_)) - static_cast<int>(std::bit_width(blocks_.size())));
  const uint64_t guides = (order.sum_ >> shift_) + 2;
  uint32_t place = 0;
  for (uint64_t g = 0; g < guides; ++g) {
    while (place + 1 < begins_.size() && begins_[place + 1] <= g << shift_) ++place;
    guide_.push_back(place);
  }
}

Draw WeightedOrder::Epoch::at(uint64_t tick) const {
  const uint64_t unit = ticks_.unit_of(tick);
  // The last place that begins at the unit or before it. Blocks without a weight begin where the next one does, and
  // come before it.
  const uint64_t g = unit >> shift_;
  const auto after = std::upper_bound(begins_.begin() + guide_[g], begins_.begin() + guide_[g + 1] + 1, unit);
  const auto place = static_cast<size_t>(after - begins_.begin()) - 1;
  uint64_t element = blocks_[place] * kBlock, begin = begins_[place];
  while (unit - begin >= order_.weights_[element]) begin += order_.weights_[element++];
  return {element, static_cast<uint32_t>(tick - ticks_.first_at(begin))};
}

}  // namespace penstock
