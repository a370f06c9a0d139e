// FirstRows: the rows that a loader needs first, while their shards are still on their way.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "core/mutex.h"
#include "loader/shards/shard_part.h"

namespace penstock::detail {

/// The parts of the shards of a data set that were fetched by themselves. Thread-safety: any thread.
class FirstRows {
 public:
  struct Wish {
    size_t shard;  // its number
    const ShardSlot* slot;
    std::vector<size_t> rows;
  };
  /// Fetches them, several shards at a time, and returns when they are there or it does not go on: at the first
  /// failure, and after 10 s. What failed is fetched with its shard, and is reported then. Calls `on_wait`, if there is
  /// one, every 100 ms; what that throws ends the wait and is thrown.
  void fetch(const std::vector<Wish>& wishes, const std::function<void()>& on_wait);
  /// The part of a shard that has the row; null if there is none. Costs one load where there are no parts at all.
  std::shared_ptr<const ShardPart> find(size_t shard, size_t row) const;
  /// The whole shard is there now.
  void drop(size_t shard);

 private:
  void add(size_t shard, std::shared_ptr<const ShardPart> part);

  std::atomic<bool> has_parts_{false};
  mutable Mutex mutex_;
  std::map<size_t, std::shared_ptr<const ShardPart>> parts_ PENSTOCK_GUARDED_BY(mutex_);  // by the number of the shard
};

}  // namespace penstock::detail
