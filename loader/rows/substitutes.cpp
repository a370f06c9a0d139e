// Substitutes: members of classes, and a keyed choice among them.
#include "loader/rows/substitutes.h"

#include <algorithm>

#include "loader/order/mix.h"

namespace penstock {

size_t Substitutes::class_of(int64_t label) const {
  return dataset_.manifest().class_names.empty() ? 0 : static_cast<size_t>(label);
}

void Substitutes::find_members() const {
  // A list of its own until it is whole: where a shard cannot be read, the next call begins anew.
  std::vector<std::vector<uint64_t>> members(std::max<size_t>(1, dataset_.manifest().class_names.size()));
  for (uint64_t k = 0; k < samples_.size(); ++k) {
    const uint64_t index = samples_.index_of(k);
    members[class_of(dataset_.at(index).label)].push_back(index);
  }
  members_ = std::move(members);
}

SampleOrder::Place Substitutes::candidate(int64_t label, int64_t epoch, uint64_t position, int number) const {
  std::call_once(is_found_, [this] { find_members(); });
  const auto& members = members_[class_of(label)];
  const uint64_t key = detail::keyed_bits(seed_, static_cast<uint64_t>(epoch), 0x5B5);
  const uint64_t bits = detail::keyed_bits(key, position, static_cast<uint64_t>(number));
  return {members[detail::scaled_below(bits, members.size())], static_cast<uint32_t>(bits) | 1};
}

}  // namespace penstock
