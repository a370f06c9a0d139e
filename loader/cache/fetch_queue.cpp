// FetchQueue: two queues, the first of which is served first.
#include "loader/cache/fetch_queue.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace penstock::detail {

void FetchQueue::expect(const std::vector<FarShard>& shards) {
  std::unordered_set<std::string> waiting;
  for (const auto* queue : {&next_, &expected_})
    for (const auto& shard : *queue) waiting.insert(shard.facts.sum());
  std::unordered_set<std::string> again;
  for (const auto& shard : shards) {
    if (waiting.insert(shard.facts.sum()).second)
      expected_.push_back(shard);
    else
      again.insert(shard.facts.sum());
  }
  const auto is_again = [&](const FarShard& shard) { return again.contains(shard.facts.sum()); };
  const auto moved = std::stable_partition(expected_.begin(), expected_.end(),
                                           [&](const FarShard& shard) { return !is_again(shard); });
  std::move(moved, expected_.end(), std::back_inserter(next_));
  expected_.erase(moved, expected_.end());
}

void FetchQueue::need_next(const FarShard& shard) {
  const auto is_same = [&](const FarShard& other) { return other.facts.sum() == shard.facts.sum(); };
  if (std::any_of(next_.begin(), next_.end(), is_same)) return;
  std::erase_if(expected_, is_same);
  next_.push_back(shard);
}

void FetchQueue::forget(const std::string& sum) {
  for (auto* queue : {&next_, &expected_})
    std::erase_if(*queue, [&](const FarShard& shard) { return shard.facts.sum() == sum; });
}

std::optional<FarShard> FetchQueue::pop() {
  auto& queue = next_.empty() ? expected_ : next_;
  if (queue.empty()) return {};
  FarShard shard = std::move(queue.front());
  queue.pop_front();
  return shard;
}

}  // namespace penstock::detail
