// Quota sequence: each turn goes to the part with the largest claim among those that are below their upper quota.
#include "loader/order/quota.h"

#include <algorithm>
#include <numeric>

#include "loader/order/mix.h"

namespace penstock {

uint64_t QuotaSequence::period_of(const std::vector<uint64_t>& counts) {
  uint64_t divisor = 0;
  for (const uint64_t count : counts) divisor = std::gcd(divisor, count);
  return divisor == 0 ? 0 : std::accumulate(counts.begin(), counts.end(), uint64_t{0}) / divisor;
}

QuotaSequence::QuotaSequence(const std::vector<uint64_t>& counts) : counts_(counts) {
  using detail::Wide;
  const uint64_t period = period_of(counts_);
  const uint64_t divisor = std::accumulate(counts_.begin(), counts_.end(), uint64_t{0}) / period;
  for (uint64_t& count : counts_) count /= divisor;
  std::vector<uint64_t> numbers(counts_.size());
  for (uint64_t turn = 0; turn < period; ++turn) {
    if (turn % kBlock == 0) numbers_.insert(numbers_.end(), numbers.begin(), numbers.end());
    size_t chosen = counts_.size();
    for (size_t i = 0; i < counts_.size(); ++i) {
      // One more turn must not be more than its share of turn + 1, rounded up.
      if (Wide{numbers[i]} * period >= Wide{turn + 1} * counts_[i]) continue;
      // counts[i] / (numbers[i] + 1) is the largest so far.
      if (chosen == counts_.size() ||
          Wide{counts_[i]} * (numbers[chosen] + 1) > Wide{counts_[chosen]} * (numbers[i] + 1))
        chosen = i;
    }
    parts_.push_back(static_cast<uint8_t>(chosen));
    ++numbers[chosen];
  }
}

QuotaSequence::Turn QuotaSequence::at(uint64_t turn) const {
  const uint64_t period = parts_.size(), place = turn % period;
  const uint8_t part = parts_[place];
  const auto block = static_cast<std::ptrdiff_t>(place / kBlock * kBlock);
  const auto before = std::count(parts_.begin() + block, parts_.begin() + static_cast<std::ptrdiff_t>(place), part);
  return {part, turn / period * counts_[part] + numbers_[place / kBlock * counts_.size() + part] +
                    static_cast<uint64_t>(before)};
}

}  // namespace penstock
