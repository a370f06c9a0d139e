// ShardSchedule: a queue of uses to come, and a heap of those that go on.
#include "loader/order/shard_schedule.h"

#include <algorithm>
#include <utility>

namespace penstock {

ShardSchedule::ShardSchedule(UsesOf uses_of, uint64_t epoch_positions, size_t ahead)
    : uses_of_(std::move(uses_of)), epoch_positions_(epoch_positions), ahead_(ahead) {}

void ShardSchedule::append_epoch() {
  const uint64_t begin = static_cast<uint64_t>(next_epoch_) * epoch_positions_;
  for (const auto& use : uses_of_(next_epoch_++)) {
    if (use.first >= epoch_positions_) break;
    coming_.push_back({use.shard, begin + use.first, begin + std::min(use.last, epoch_positions_ - 1)});
  }
}

/// The next use that is not over.
std::optional<ShardUse> ShardSchedule::next_use(uint64_t done, uint64_t limit) {
  for (;; append_epoch()) {
    while (!coming_.empty() && coming_.front().last < done) coming_.pop_front();
    if (!coming_.empty()) return coming_.front().first < limit ? std::optional(coming_.front()) : std::nullopt;
    if (static_cast<uint64_t>(next_epoch_) * epoch_positions_ >= limit) return std::nullopt;
  }
}

ShardSchedule::Step ShardSchedule::go_to(uint64_t done, uint64_t end, uint64_t limit) {
  std::set<uint32_t> unused;
  const auto epoch = static_cast<int64_t>(done / epoch_positions_);
  if (done < done_ || epoch > next_epoch_) {
    for (const auto& [shard, uses] : held_) unused.insert(shard);
    held_.clear(), coming_.clear(), ahead_firsts_.clear(), going_ = {};
    next_epoch_ = epoch;
  }
  done_ = done;
  for (; !going_.empty() && going_.top().last < done; going_.pop()) {
    const auto held = held_.find(going_.top().shard);
    if (--held->second > 0) continue;
    unused.insert(held->first);
    held_.erase(held);
  }
  while (!ahead_firsts_.empty() && ahead_firsts_.front() < end) ahead_firsts_.pop_front();
  Step step;
  while (const auto use = next_use(done, limit)) {
    if (use->first >= end) {
      if (ahead_firsts_.size() == ahead_) break;
      ahead_firsts_.push_back(use->first);
    }
    coming_.pop_front();
    going_.push(*use);
    if (held_[use->shard]++ == 0 && unused.erase(use->shard) == 0) step.fetch.push_back(use->shard);
  }
  step.drop.assign(unused.begin(), unused.end());
  return step;
}

}  // namespace penstock
