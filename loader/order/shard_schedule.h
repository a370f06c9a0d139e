// ShardSchedule: which shards to fetch and which to drop next, as an epoch and the ones after it go by.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <queue>
#include <set>
#include <unordered_map>
#include <vector>

#include "loader/order/shard_order.h"

namespace penstock {

/// Positions are counted over epochs: epoch e begins at e * epoch_positions. A shard is held from the time at which it
/// is fetched until its last use is over; as all uses to come are known, nothing is guessed.
///
/// A pure function of its arguments and of the positions that it is taken to. Memory: the uses of two epochs.
/// Thread-safety: none.
class ShardSchedule {
 public:
  using UsesOf = std::function<std::vector<ShardUse>(int64_t epoch)>;

  /// `uses_of`: the uses in an epoch, in the order of their first positions; those from `epoch_positions` on, which a
  /// dropped tail leaves out, are ignored. `ahead`: how many uses are fetched before the rows that need them are made.
  /// Requires epoch_positions >= 1.
  ShardSchedule(UsesOf uses_of, uint64_t epoch_positions, size_t ahead);

  struct Step {
    std::vector<uint32_t> fetch, drop;  // shards; those to fetch are in the order of their use
  };
  /// Rows before `done` are needed no more, those before `end` are about to be made, and those from `limit` on never
  /// will be. A `done` that is less than before, or in a later epoch than the next, begins again from there.
  Step go_to(uint64_t done, uint64_t end, uint64_t limit);

  size_t held_count() const { return held_.size(); }  ///< Shards.

 private:
  std::optional<ShardUse> next_use(uint64_t done, uint64_t limit);
  void append_epoch();

  UsesOf uses_of_;
  uint64_t epoch_positions_;
  size_t ahead_;
  uint64_t done_ = 0;
  int64_t next_epoch_ = 0;                  // whose uses are appended next
  std::deque<ShardUse> coming_;             // in the order of their first positions, counted over epochs
  std::unordered_map<uint32_t, int> held_;  // how many uses of the shard are going on or coming
  std::deque<uint64_t> ahead_firsts_;       // of uses that are held and have not begun
  struct Later {
    bool operator()(const ShardUse& a, const ShardUse& b) const { return a.last > b.last; }
  };
  std::priority_queue<ShardUse, std::vector<ShardUse>, Later> going_;  // the one that ends first on top
};

}  // namespace penstock
