// AliasTable: columns that have too much fill those that have too little.
#include "loader/order/alias_table.h"

#include "loader/order/mix.h"

namespace penstock {

AliasTable::AliasTable(const std::vector<uint64_t>& weights) {
  for (const uint64_t weight : weights) sum_ += weight;
  const auto size = static_cast<uint64_t>(weights.size());
  std::vector<uint64_t> left;  // of each element, in units of which a column holds sum(w)
  std::vector<uint64_t> small, large;
  left.reserve(size), entries_.reserve(size), small.reserve(size), large.reserve(size);
  for (uint64_t i = 0; i < size; ++i) {
    left.push_back(weights[i] * size);
    (left.back() < sum_ ? small : large).push_back(i);
    entries_.push_back({sum_, i});
  }
  while (!small.empty() && !large.empty()) {
    const uint64_t poor = small.back(), rich = large.back();
    small.pop_back();
    entries_[poor] = {left[poor], rich};
    left[rich] -= sum_ - left[poor];
    if (left[rich] >= sum_) continue;
    large.pop_back();
    small.push_back(rich);
  }
}

uint64_t AliasTable::draw(uint64_t first, uint64_t second) const {
  const uint64_t column = detail::scaled_below(first, entries_.size());
  const Entry& entry = entries_[column];
  return detail::scaled_below(second, sum_) < entry.own ? column : entry.other;
}

}  // namespace penstock
