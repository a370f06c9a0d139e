// ShardedState: one part after the other.
#include "train/parallel/sharding/sharded_state.h"

#include "core/error.h"
#include "train/parallel/sharding/sharded_update.h"
#include "train/parallel/strategy/buckets.h"
#include "train/tensor/ordered_norms.h"

namespace penstock::detail {

std::shared_ptr<ParameterStore> ShardedState::make_store(const ModelPart& part, Comm& comm, Recorder& recorder,
                                                         const Passes& passes) {
  return parameters_ = std::make_shared<ShardedParameters>(part, comm, recorder, passes);
}

std::unique_ptr<Update> ShardedState::make_update(const UpdateContext& context) {
  if (kinds_.parameters) {
    buckets_ = parameters()->trained();
  } else {
    const auto trained = values(context.trained);
    buckets_ = slice_parameters(trained, assign_buckets(bytes_of(trained)), context.comm,
                                context.is_exact ? kVectorAlignment : 1);
  }
  if (kinds_.gradients && !kinds_.parameters)
    for (auto& bucket : buckets_) bucket.gradient = torch::zeros_like(bucket.slice);
  has_buckets_ = true;
  return make_sharded_update(context, buckets_, /*gathers=*/!kinds_.parameters);
}

std::shared_ptr<ShardedParameters> ShardedState::parameters() const {
  if (!parameters_) throw bug_error("an update or a sync of sharded parameters without a store; expected it first");
  return parameters_;
}

const std::vector<ShardedBucket>& ShardedState::buckets() const {
  if (!has_buckets_) throw bug_error("a sync of sharded gradients without an update; expected the update first");
  return buckets_;
}

}  // namespace penstock::detail
