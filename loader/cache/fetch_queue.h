// FetchQueue: which shards are fetched ahead of time, and in which order.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "loader/cache/shard_cache.h"

namespace penstock::detail {

/// First come those that are needed next, then those that are only expected, each in the order in which they were
/// given. A shard waits at most once. Thread-safety: external.
class FetchQueue {
 public:
  /// Adds at the end. What waits already and is expected again is needed next.
  void expect(const std::vector<FarShard>& shards);
  void need_next(const FarShard& shard);
  /// Takes out what nobody needs soon.
  void forget(const std::string& sum);
  /// Nothing if it is empty.
  std::optional<FarShard> pop();
  bool empty() const { return next_.empty() && expected_.empty(); }

 private:
  std::deque<FarShard> next_, expected_;
};

}  // namespace penstock::detail
