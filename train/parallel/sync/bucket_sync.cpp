// Bucket sync: starts buckets in order and waits for their sums.
#include "train/parallel/sync/bucket_sync.h"

#include <utility>

#include "train/parallel/strategy/buckets.h"

namespace penstock::detail {
namespace {

class BucketSync final : public OrderedBuckets {
 public:
  BucketSync(const std::vector<torch::Tensor>& parameters, const std::vector<std::vector<size_t>>& members,
             const SyncContext& context)
      : OrderedBuckets(parameters, members, context.recorder, context.backward_count),
        comm_(context.comm),
        buckets_(bucket_gradients(parameters, members, context.comm)) {}

  void begin() override {
    for (auto& bucket : buckets_) bucket.flat.zero_();
    OrderedBuckets::begin();
  }

 private:
  void start(size_t bucket) override {
    works().start([&] { return comm_.all_reduce_sum(buckets_[bucket].flat); });
  }

  Comm& comm_;
  std::vector<Bucket> buckets_;
};

}  // namespace

OrderedBuckets::OrderedBuckets(const std::vector<torch::Tensor>& parameters, std::vector<std::vector<size_t>> members,
                               Recorder& recorder, int backward_count)
    : works_(recorder),
      members_(std::move(members)),
      backward_count_(static_cast<size_t>(backward_count)),
      missing_(members_.size()),
      bucket_of_(parameters.size()),
      hooks_(parameters, [this](size_t parameter) { gradient_is_there(parameter); }) {
  for (size_t bucket = 0; bucket < members_.size(); ++bucket)
    for (const size_t i : members_[bucket]) bucket_of_[i] = bucket;
}

void OrderedBuckets::begin() {
  works_.restart();
  started_count_ = 0;
  for (size_t bucket = 0; bucket < members_.size(); ++bucket)
    missing_[bucket] = members_[bucket].size() * backward_count_;
}

void OrderedBuckets::finish() {
  start_rest();
  works_.wait_for(works_.count());
}

void OrderedBuckets::start_rest() {
  while (started_count_ < members_.size()) start(started_count_++);
}

void OrderedBuckets::gradient_is_there(size_t parameter) {
  size_t& missing = missing_[bucket_of_[parameter]];
  if (missing == 0 || --missing > 0) return;
  while (started_count_ < members_.size() && missing_[started_count_] == 0) start(started_count_++);
}

std::unique_ptr<GradientSync> make_bucket_sync(const SyncContext& context) {
  const auto parameters = values(context.trained);
  return std::make_unique<BucketSync>(parameters, assign_buckets(bytes_of(parameters)), context);
}

}  // namespace penstock::detail
