// ShardWindow: the shards' elements, counted, and the order over them.
#include "loader/samplers/shard_window.h"

#include <algorithm>

#include "core/error.h"
#include "core/number_text.h"
#include "core/text.h"
#include "loader/order/mix.h"

namespace penstock {
namespace {

struct WindowedEpoch final : SampledEpoch {
  WindowedEpoch(const ShardOrder& order, int64_t epoch) : places(order, static_cast<uint64_t>(epoch)) {}
  Draw at(uint64_t position) const override { return {places.at(position), 0}; }
  ShardOrder::Epoch places;
};

}  // namespace

std::vector<uint64_t> elements_per_shard(const SamplerContext& context) {
  std::vector<uint64_t> sizes;
  uint64_t begin = 0;  // the first element of the shard
  for (int shard = 0; shard < context.dataset.shard_count(); ++shard) {
    const uint64_t end_index = context.dataset.shard_begin(shard + 1);
    const uint64_t end =
        context.subset == nullptr
            ? end_index
            : static_cast<uint64_t>(std::lower_bound(context.subset->begin(), context.subset->end(), end_index) -
                                    context.subset->begin());
    sizes.push_back(end - begin);
    begin = end;
  }
  return sizes;
}

std::unique_ptr<const ShardWindow> ShardWindow::make(const Shuffle& shuffle, const SamplerContext& context) {
  if (shuffle.lanes > context.batch_size)
    throw config_error(concat("loader: shuffle ", shuffle.text(), " with a batch size of ", context.batch_size,
                              "; expected lanes of at most the batch size, one row or more for each"));
  const auto sizes = elements_per_shard(context);
  const auto used = std::count_if(sizes.begin(), sizes.end(), [](uint64_t size) { return size > 0; });
  if (used <= shuffle.window) return nullptr;
  return std::unique_ptr<const ShardWindow>(new ShardWindow(shuffle, context, sizes));
}

ShardWindow::ShardWindow(const Shuffle& shuffle, const SamplerContext& context, const std::vector<uint64_t>& sizes)
    : order_(sizes, shuffle.window, shuffle.lanes, static_cast<uint64_t>(context.batch_size), context.seed) {}

std::unique_ptr<const SampledEpoch> ShardWindow::epoch(int64_t epoch) const {
  return std::make_unique<WindowedEpoch>(order_, epoch);
}

std::string ShardWindow::text() const {
  const uint64_t lanes = static_cast<uint64_t>(order_.lanes());
  return concat(grouped(order_.slots_per_lane() * lanes), " of ", count_text(order_.used_shard_count(), "shard"),
                " in use at a time, ", count_text(order_.slots_per_lane(), "shard"), " in each of ",
                count_text(lanes, "lane"));
}

uint64_t ShardWindow::checksum() const {
  uint64_t sum = ShardOrder::kVersion;
  for (size_t shard = 0; shard < order_.shard_count(); ++shard) sum = detail::mix(sum + order_.elements_of(shard));
  return sum;
}

std::vector<ShardUse> ShardWindow::uses(int64_t epoch, int rank, int world_size) const {
  const int lanes = order_.lanes();
  const int first = static_cast<int>(int64_t{rank} * lanes / world_size);
  const int end = static_cast<int>(((int64_t{rank} + 1) * lanes + world_size - 1) / world_size);
  return ShardOrder::Epoch(order_, static_cast<uint64_t>(epoch)).uses(first, end);
}

}  // namespace penstock
