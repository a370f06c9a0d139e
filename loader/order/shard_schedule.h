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
#include <utility>
#include <vector>

#include "loader/order/shard_order.h"

namespace penstock {

/// What is in use at the time at which that is most.
struct MostInUse {
  size_t count = 0;
  uint64_t bytes = 0;
};
/// `uses`: of one epoch, in the order of their first positions. `shard_bytes`: one entry per shard. A shard with two
/// uses at a time counts twice.
MostInUse most_in_use(const std::vector<ShardUse>& uses, const std::vector<uint64_t>& shard_bytes);

/// Positions are counted over epochs: epoch e begins at e * epoch_positions. A shard is held from the time at which it
/// is fetched until its last use is over; as all uses to come are known, nothing is guessed.
///
/// A pure function of its arguments and of the positions that it is taken to. Memory: the uses of two epochs.
/// Thread-safety: none.
class ShardSchedule {
 public:
  using UsesOf = std::function<std::vector<ShardUse>(int64_t epoch)>;
  struct Budget {
    uint64_t most_bytes = ~uint64_t{0};      // that are held; what the rows being made need is held in any case
    std::vector<uint64_t> shard_bytes = {};  // one entry per shard; none: shards have no size
  };

  /// `uses_of`: the uses in an epoch, in the order of their first positions; those from `epoch_positions` on, which a
  /// dropped tail leaves out, are ignored. `ahead`: how many uses are fetched before the rows that need them are made,
  /// if the budget has room for them. Requires epoch_positions >= 1.
  ShardSchedule(UsesOf uses_of, uint64_t epoch_positions, size_t ahead, Budget budget);
  ShardSchedule(UsesOf uses_of, uint64_t epoch_positions, size_t ahead)
      : ShardSchedule(std::move(uses_of), epoch_positions, ahead, Budget{}) {}

  struct Step {
    /// Shards; those to fetch are in the order of their use. Also dropped is what has never been fetched, if all its
    /// rows were made between two steps: whoever made them has read it.
    std::vector<uint32_t> fetch, drop;
  };
  /// Rows before `done` are needed no more, those before `end` are about to be made, and those from `limit` on never
  /// will be. A `done` that is less than before, or in a later epoch than the next, begins again from there.
  Step go_to(uint64_t done, uint64_t end, uint64_t limit);

  size_t held_count() const { return held_.size(); }  ///< Shards.
  uint64_t held_bytes() const { return held_bytes_; }

 private:
  std::optional<ShardUse> next_use(uint64_t done, uint64_t limit, std::set<uint32_t>& passed);
  void append_epoch();
  uint64_t bytes_of(uint32_t shard) const { return budget_.shard_bytes.empty() ? 0 : budget_.shard_bytes[shard]; }

  UsesOf uses_of_;
  uint64_t epoch_positions_;
  size_t ahead_;
  Budget budget_;
  uint64_t held_bytes_ = 0;
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
