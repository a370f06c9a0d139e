// Far rate: the loads of a link, simulated, and the costs of a step that they make.
#include "loader/bottleneck/far_rate.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/text.h"
#include "loader/bottleneck/cache_model.h"
#include "loader/cache/ahead.h"
#include "loader/order/shard_schedule.h"

namespace penstock {
namespace {

constexpr int kSimulatedEpochs = 4;  // the cache is as full as it gets after the first

std::vector<uint64_t> samples_per_shard(const FarSet& set) {
  std::vector<uint64_t> sizes;
  const auto count = static_cast<uint64_t>(set.shard_count);
  for (uint64_t shard = 0; shard < count; ++shard)
    sizes.push_back(set.image_count * (shard + 1) / count - set.image_count * shard / count);
  return sizes;
}

/// What the lanes of the first node use in every epoch (ShardWindow::uses()).
std::vector<std::vector<ShardUse>> uses_of_node(const FarSet& set) {
  const int lanes = set.shuffle.lanes;
  const ShardOrder order(samples_per_shard(set), set.shuffle.window, lanes, static_cast<uint64_t>(set.batch_size), 0);
  std::vector<std::vector<ShardUse>> uses;
  for (uint64_t epoch = 0; epoch < kSimulatedEpochs; ++epoch)
    uses.push_back(ShardOrder::Epoch(order, epoch).uses(0, (lanes + set.nodes - 1) / set.nodes));
  return uses;
}

std::optional<ShardLoads> loads_of_window(const FarSet& set, uint64_t room) {
  const auto uses = uses_of_node(set);
  const auto ahead = static_cast<uint64_t>(set.shuffle.lanes);
  const std::vector<uint64_t> one_each(static_cast<size_t>(set.shard_count), 1);
  if (room < most_in_use(uses[0], one_each).count + 1) return std::nullopt;
  // Which shards are removed does not depend on names that say nothing about the order.
  const std::vector<std::string> names(static_cast<size_t>(set.shard_count));
  const auto load_of = [&](uint64_t fetched) {
    const double shards = static_cast<double>(fetched) / set.batches();
    return LinkLoad{shards, shards * set.shard_bytes(), true};
  };
  return ShardLoads{load_of(detail::fetched_shards({uses[0]}, names, room, ahead)),
                    load_of(detail::fetched_shards(uses, names, room, ahead))};
}

/// Every batch needs any shard.
ShardLoads loads_of_full_shuffle(const FarSet& set, uint64_t room) {
  const auto count = static_cast<uint64_t>(set.shard_count);
  if (room >= count) {
    const double shards = static_cast<double>(set.shard_count) / set.batches();
    return {{shards, shards * set.shard_bytes(), true}, {0, 0, true}};
  }
  const double rows = static_cast<double>(set.batch_size) / set.nodes;
  const double shards = rows * detail::missed_share(room, count);
  const LinkLoad load{shards, shards * set.shard_bytes(), false};
  return {load, load};
}

}  // namespace

double FarSet::shard_bytes() const { return image_bytes * static_cast<double>(image_count) / shard_count; }
double FarSet::batches() const {
  return std::max(1.0, std::ceil(static_cast<double>(image_count) / static_cast<double>(batch_size)));
}

LinkLoad load_of_images(const FarSet& set) {
  const double rows = static_cast<double>(set.batch_size) / set.nodes;
  return {rows, rows * set.image_bytes, false};
}

std::optional<ShardLoads> load_of_shards(const FarSet& set, uint64_t cache_bytes) {
  if (set.shuffle.has_window() && set.shuffle.lanes > set.batch_size)
    throw config_error(concat("shuffle ", set.shuffle.text(), " with a batch size of ", set.batch_size,
                              "; expected lanes of at most the batch size"));
  const double shard_bytes = set.shard_bytes();
  const auto room = static_cast<uint64_t>(
      std::min(static_cast<double>(set.shard_count), std::floor(static_cast<double>(cache_bytes) / shard_bytes)));
  const bool has_window = set.shuffle.has_window() && set.shuffle.window < set.shard_count;
  if (has_window) return loads_of_window(set, room);
  if (room < std::min<uint64_t>(2, static_cast<uint64_t>(set.shard_count))) return std::nullopt;
  return loads_of_full_shuffle(set, room);
}

FarRate far_rate(const FarSet& set, const LinkLoad& load, const LinkSpeed& link, int workers, double in_memory) {
  const double rows = static_cast<double>(set.batch_size) / set.nodes;
  const double bytes_ms = load.bytes * 1e3 / link.bytes_per_second, delays_ms = load.requests * link.delay_ms;
  StepCosts times;
  times.load_ms = workers * rows * 1e3 / in_memory;
  times.link_busy_ms = bytes_ms;
  if (load.is_ahead) {
    times.link_requests = detail::Ahead::kThreads;
    times.link_delays_ms = delays_ms / detail::Ahead::kThreads;
  } else {
    times.link_latency_ms = delays_ms;
    times.link_ms = delays_ms + bytes_ms;
    times.load_ms += times.link_ms;
  }
  const double step_ms = predicted_step_ms(times, workers);
  return {rows * 1e3 / step_ms, slowest(times, workers)};
}

}  // namespace penstock
