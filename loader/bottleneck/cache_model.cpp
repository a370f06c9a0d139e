// Cache model: a simulation of epochs for orders with a window, a formula for the others.
#include "loader/bottleneck/cache_model.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>
#include <set>
#include <unordered_map>

#include "loader/rows/sample_order.h"

namespace penstock {
namespace detail {
namespace {

/// The shards of a cache: those in use, and those that wait for another use by their names.
class SimulatedCache {
 public:
  SimulatedCache(const std::vector<std::string>& names, uint64_t room) : names_(names), room_(room) {}

  /// Returns whether the shard had to be fetched.
  bool use(uint32_t shard) {
    if (uses_[shard]++ > 0) return false;
    const bool is_there = spent_.erase({names_[shard], shard}) > 0;
    ++live_;
    while (!spent_.empty() && live_ + spent_.size() > room_) spent_.erase(spent_.begin());
    return !is_there;
  }
  void end_use(uint32_t shard) {
    if (--uses_[shard] > 0) return;
    --live_;
    spent_.insert({names_[shard], shard});
  }

 private:
  const std::vector<std::string>& names_;
  const uint64_t room_;
  uint64_t live_ = 0;
  std::unordered_map<uint32_t, int> uses_;
  std::set<std::pair<std::string, uint32_t>> spent_;
};

}  // namespace

uint64_t fetched_shards(const std::vector<std::vector<ShardUse>>& uses, const std::vector<std::string>& names,
                        uint64_t room, uint64_t ahead) {
  using End = std::pair<uint64_t, uint32_t>;  // last position, shard
  SimulatedCache cache(names, room);
  uint64_t fetched = 0;
  for (const auto& epoch : uses) {
    fetched = 0;
    std::priority_queue<End, std::vector<End>, std::greater<>> going;
    for (size_t i = 0; i < epoch.size(); ++i) {
      // Use i is fetched when the use `ahead` before it begins; what ended before that is not in use any more.
      const uint64_t now = epoch[i < ahead ? 0 : i - ahead].first;
      for (; !going.empty() && going.top().first < now; going.pop()) cache.end_use(going.top().second);
      if (cache.use(epoch[i].shard)) ++fetched;
      going.push({epoch[i].last, epoch[i].shard});
    }
    for (; !going.empty(); going.pop()) cache.end_use(going.top().second);
  }
  return fetched;
}

double missed_share(uint64_t room, uint64_t shards) {
  return room >= shards ? 0 : 1 - static_cast<double>(room) / static_cast<double>(shards);
}

}  // namespace detail

void ask_cache(LoopMeasurement& run, const Dataset& dataset, const LoaderOptions& options) {
  constexpr int kEpochs = 4;  // the cache is as full as it gets after the first
  constexpr uint64_t kSizes = 8;
  const auto& shards = dataset.manifest().shards;
  if (run.link_bytes <= 0 || shards.empty()) return;
  double bytes = 0;
  std::vector<std::string> names;
  for (const auto& shard : shards) {
    bytes += static_cast<double>(shard.byte_count);
    names.push_back(shard.xxh3);
  }
  const SampleOrder order(dataset, options);
  const double shard_bytes = bytes / static_cast<double>(shards.size());
  const auto batches = static_cast<double>(std::max<int64_t>(1, order.partition().batch_count()));
  const double batch_rows = static_cast<double>(order.partition().sample_count()) / batches;
  std::vector<std::vector<ShardUse>> uses;
  for (int epoch = 0; epoch < kEpochs && order.has_window(); ++epoch) uses.push_back(order.shard_uses(dataset, epoch));
  for (uint64_t eighth = 1; eighth <= kSizes; ++eighth) {
    const uint64_t room = (shards.size() * eighth + kSizes - 1) / kSizes;
    const auto ahead = static_cast<uint64_t>(std::max(1, options.shuffle.lanes));
    const double fetched = order.has_window()
                               ? static_cast<double>(detail::fetched_shards(uses, names, room, ahead)) / batches
                               : batch_rows * detail::missed_share(room, shards.size());
    run.cache_cases.push_back(
        {static_cast<uint64_t>(std::ceil(shard_bytes * static_cast<double>(room))), fetched * shard_bytes});
  }
}

}  // namespace penstock
