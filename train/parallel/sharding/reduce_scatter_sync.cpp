// ReduceScatterGradients: packs a bucket and starts its reduce-scatter.
#include "train/parallel/sharding/reduce_scatter_sync.h"

#include <algorithm>
#include <utility>

#include "train/parallel/sync/bucket_sync.h"
#include "train/tensor/storage.h"

namespace penstock::detail {
namespace {

class ReduceScatterSync final : public OrderedBuckets {
 public:
  ReduceScatterSync(const SyncContext& context, const std::vector<ShardedBucket>& buckets)
      : OrderedBuckets(values(context.trained), members_of(buckets), context.recorder, context.backward_count),
        scatter_(values(context.trained), buckets, context.comm, works()) {}

  void begin() override {
    scatter_.reset();
    OrderedBuckets::begin();
  }
  std::vector<torch::Tensor> buffers() const override { return scatter_.buffers(); }
  int64_t peak_bytes() const override { return scatter_.peak_bytes(); }

 private:
  void start(size_t bucket) override {
    if (bucket > 1) works().wait_for(bucket - 1);  // so that two buckets take memory at most
    scatter_.start(bucket);
  }

  ReduceScatterGradients scatter_;
};

}  // namespace

ReduceScatterGradients::ReduceScatterGradients(std::vector<torch::Tensor> parameters,
                                               std::vector<ShardedBucket> buckets, Comm& comm,
                                               PendingCollectives& works)
    : parameters_(std::move(parameters)), buckets_(std::move(buckets)), comm_(comm), works_(works) {}

void ReduceScatterGradients::start(size_t index) {
  at::NoGradGuard no_grad;
  auto& bucket = buckets_[index];
  auto flat = torch::empty({bucket.whole.numel()}, bucket.whole.options());
  auto alive = gradients();
  alive.push_back(flat);
  peak_bytes_ = std::max(peak_bytes_, storage_bytes(alive));
  int64_t end = 0;
  for (size_t k = 0; k < bucket.members.size(); ++k) {
    const auto& parameter = parameters_[bucket.members[k]];
    const int64_t offset = bucket.offsets[k];
    flat.narrow(0, end, offset - end).zero_();  // what alignment has left free
    auto place = flat.as_strided(parameter.sizes(), parameter.strides(), offset);
    if (parameter.grad().defined())
      place.copy_(parameter.grad());
    else
      place.zero_();
    parameter.mutable_grad().reset();
    end = offset + parameter.numel();
  }
  flat.narrow(0, end, flat.numel() - end).zero_();
  works_.start([&] { return comm_.reduce_scatter_sum(bucket.gradient, flat); }, flat);
}

void ReduceScatterGradients::reset() {
  for (const auto& parameter : parameters_) parameter.mutable_grad().reset();
}

std::vector<torch::Tensor> ReduceScatterGradients::buffers() const {
  auto list = works_.kept();
  for (const auto& bucket : buckets_) list.push_back(bucket.gradient);
  return list;
}

std::vector<torch::Tensor> ReduceScatterGradients::gradients() const {
  auto list = buffers();
  for (const auto& parameter : parameters_) list.push_back(parameter.grad());
  return list;
}

std::unique_ptr<GradientSync> make_reduce_scatter_sync(const SyncContext& context,
                                                       const std::vector<ShardedBucket>& buckets) {
  return std::make_unique<ReduceScatterSync>(context, buckets);
}

}  // namespace penstock::detail
