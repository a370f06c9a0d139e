// GroupOrder: ticks over the groups, and in each group ticks over its elements.
#include "loader/order/group_order.h"

#include <algorithm>

#include "loader/order/mix.h"

namespace penstock {
namespace {

std::vector<uint64_t> running_sums(const std::vector<uint64_t>& values) {
  std::vector<uint64_t> sums{0};
  for (const uint64_t value : values) sums.push_back(sums.back() + value);
  return sums;
}

}  // namespace

GroupOrder::GroupOrder(const std::vector<uint64_t>& sizes, const std::vector<uint64_t>& weights)
    : begins_(running_sums(sizes)), sums_(running_sums(weights)) {}

GroupOrder::Epoch::Epoch(const GroupOrder& order, uint64_t rows, uint64_t seed, uint64_t epoch, bool is_shuffled) {
  const uint64_t whole = order.sums_.back();
  const Ticks over_groups{rows, whole, detail::scaled_below(detail::keyed_bits(seed, epoch), whole)};
  for (size_t g = 0; g < order.group_count(); ++g) {
    const uint64_t first = over_groups.first_at(order.sums_[g]), end = over_groups.first_at(order.sums_[g + 1]);
    const uint64_t size = order.begins_[g + 1] - order.begins_[g];
    const uint64_t key = detail::keyed_bits(seed, epoch, g + 1);
    groups_.push_back({first,
                       order.begins_[g],
                       {end - first, size, detail::scaled_below(key, size)},
                       is_shuffled ? Order::shuffled(size, key, epoch) : Order::sequential(size)});
  }
}

Draw GroupOrder::Epoch::at(uint64_t tick) const {
  const auto after = std::upper_bound(groups_.begin(), groups_.end(), tick,
                                      [](uint64_t value, const Group& group) { return value < group.first_tick; });
  const Group& group = *std::prev(after);
  const uint64_t own = tick - group.first_tick, place = group.ticks.unit_of(own);
  return {group.begin + group.order.at(place), static_cast<uint32_t>(own - group.ticks.first_at(place))};
}

}  // namespace penstock
