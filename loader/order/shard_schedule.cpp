// ShardSchedule: a queue of uses to come, and a heap of those that go on.
#include "loader/order/shard_schedule.h"

#include <algorithm>

namespace penstock {

MostInUse most_in_use(const std::vector<ShardUse>& uses, const std::vector<uint64_t>& shard_bytes) {
  const auto ends_later = [](const ShardUse& a, const ShardUse& b) { return a.last > b.last; };
  std::priority_queue<ShardUse, std::vector<ShardUse>, decltype(ends_later)> going(ends_later);
  MostInUse most;
  uint64_t bytes = 0;
  for (const auto& use : uses) {
    for (; !going.empty() && going.top().last < use.first; going.pop()) bytes -= shard_bytes[going.top().shard];
    going.push(use);
    bytes += shard_bytes[use.shard];
    most = {std::max(most.count, going.size()), std::max(most.bytes, bytes)};
  }
  return most;
}

ShardSchedule::ShardSchedule(UsesOf uses_of, uint64_t epoch_positions, size_t ahead, Budget budget)
    : uses_of_(std::move(uses_of)), epoch_positions_(epoch_positions), ahead_(ahead), budget_(std::move(budget)) {}

void ShardSchedule::append_epoch() {
  const uint64_t begin = static_cast<uint64_t>(next_epoch_) * epoch_positions_;
  for (const auto& use : uses_of_(next_epoch_++)) {
    if (use.first >= epoch_positions_) break;
    coming_.push_back({use.shard, begin + use.first, begin + std::min(use.last, epoch_positions_ - 1)});
  }
}

/// The next use that is not over. The shards of those before it go to `passed`.
std::optional<ShardUse> ShardSchedule::next_use(uint64_t done, uint64_t limit, std::set<uint32_t>& passed) {
  for (;; append_epoch()) {
    for (; !coming_.empty() && coming_.front().last < done; coming_.pop_front()) passed.insert(coming_.front().shard);
    if (!coming_.empty()) return coming_.front().first < limit ? std::optional(coming_.front()) : std::nullopt;
    if (static_cast<uint64_t>(next_epoch_) * epoch_positions_ >= limit) return std::nullopt;
  }
}

ShardSchedule::Step ShardSchedule::go_to(uint64_t done, uint64_t end, uint64_t limit) {
  std::set<uint32_t> unused, passed;  // that were held, and that no step has seen
  const auto epoch = static_cast<int64_t>(done / epoch_positions_);
  if (done < done_ || epoch > next_epoch_) {
    for (const auto& [shard, uses] : held_) unused.insert(shard);
    held_.clear(), coming_.clear(), ahead_firsts_.clear(), going_ = {};
    held_bytes_ = 0;
    next_epoch_ = epoch;
  }
  done_ = done;
  for (; !going_.empty() && going_.top().last < done; going_.pop()) {
    const auto held = held_.find(going_.top().shard);
    if (--held->second > 0) continue;
    unused.insert(held->first);
    held_bytes_ -= bytes_of(held->first);
    held_.erase(held);
  }
  while (!ahead_firsts_.empty() && ahead_firsts_.front() < end) ahead_firsts_.pop_front();
  Step step;
  while (const auto use = next_use(done, limit, passed)) {
    const bool is_held = held_.contains(use->shard);
    if (use->first >= end) {
      const bool has_room = is_held || held_bytes_ + bytes_of(use->shard) <= budget_.most_bytes;
      if (ahead_firsts_.size() == ahead_ || !has_room) break;
      ahead_firsts_.push_back(use->first);
    }
    coming_.pop_front();
    going_.push(*use);
    ++held_[use->shard];
    if (is_held) continue;
    held_bytes_ += bytes_of(use->shard);
    if (unused.erase(use->shard) == 0) step.fetch.push_back(use->shard);
  }
  for (const uint32_t shard : passed)
    if (!held_.contains(shard)) unused.insert(shard);
  step.drop.assign(unused.begin(), unused.end());
  return step;
}

}  // namespace penstock
