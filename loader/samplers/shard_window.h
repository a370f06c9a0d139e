// ShardWindow: the sampler behind --shuffle shards(...): all samples once, in the order of ShardOrder.
#pragma once

#include <memory>
#include <vector>

#include "loader/order/shard_order.h"
#include "loader/samplers/sampler.h"

namespace penstock {

/// How many elements lie in each shard of context.dataset.
std::vector<uint64_t> elements_per_shard(const SamplerContext& context);

class ShardWindow final : public Sampler {
 public:
  /// Null where the window has room for all shards that have elements: that order is the full shuffle. Throws
  /// config_error where a batch has fewer rows than lanes. Requires shuffle.has_window().
  static std::unique_ptr<const ShardWindow> make(const Shuffle& shuffle, const SamplerContext& context);

  uint64_t rows() const override { return order_.size(); }
  std::unique_ptr<const SampledEpoch> epoch(int64_t epoch) const override;
  std::string text() const override;
  uint64_t checksum() const override;  ///< Covers what the spec does not say: version of the order, shards' sizes.

  const ShardOrder& order() const { return order_; }
  /// What the lanes of a rank need of an epoch (ShardOrder::Epoch::uses()). Where the number of ranks does not divide
  /// that of the lanes, ranks share some lanes, and this is all that they need.
  std::vector<ShardUse> uses(int64_t epoch, int rank, int world_size) const;

 private:
  ShardWindow(const Shuffle& shuffle, const SamplerContext& context, const std::vector<uint64_t>& sizes);
  ShardOrder order_;
};

}  // namespace penstock
