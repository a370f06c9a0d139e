// Bucket sync: starts buckets in order and waits for their sums.
#include "train/parallel/sync/bucket_sync.h"

#include "train/parallel/strategy/buckets.h"

namespace penstock::detail {
namespace {

class BucketSync final : public OrderedBuckets {
 public:
  BucketSync(const std::vector<torch::Tensor>& parameters, const std::vector<std::vector<size_t>>& members,
             const SyncContext& context)
      : OrderedBuckets(parameters, members, context.recorder, context.backward_count),
        comm_(context.comm),
        recorder_(context.recorder),
        buckets_(bucket_gradients(parameters, members, context.comm)),
        on_bucket_reduced_(context.on_bucket_reduced) {}

  void begin() override {
    for (auto& bucket : buckets_) bucket.flat.zero_();
    reduced_count_ = 0;
    OrderedBuckets::begin();
  }

  void finish() override {
    if (!on_bucket_reduced_) return OrderedBuckets::finish();
    start_rest();
    while (reduced_count_ < buckets_.size()) bucket_reduced(Phase::kCommunication);
  }

 private:
  void start(size_t bucket) override {
    works().start([&] { return comm_.all_reduce_sum(buckets_[bucket].flat); });
  }

  void after_gradient() override {
    if (!on_bucket_reduced_) return;
    while (reduced_count_ < works().count() && works().is_done(reduced_count_)) bucket_reduced(Phase::kBackward);
  }

  /// `before`: what this rank did up to here.
  void bucket_reduced(Phase before) {
    works().wait_for(reduced_count_ + 1);
    recorder_.mark(before);
    on_bucket_reduced_(reduced_count_++);
    recorder_.mark(Phase::kOptimizer);
  }

  Comm& comm_;
  Recorder& recorder_;
  std::vector<Bucket> buckets_;
  std::function<void(size_t)> on_bucket_reduced_;
  size_t reduced_count_ = 0;
};

}  // namespace

OrderedBuckets::OrderedBuckets(const std::vector<torch::Tensor>& parameters,
                               const std::vector<std::vector<size_t>>& members, Recorder& recorder, int backward_count)
    : works_(recorder),
      bucket_count_(members.size()),
      countdown_(
          parameters, members, backward_count, [this](size_t) { start_complete(); }, [this] { after_gradient(); }) {}

void OrderedBuckets::begin() {
  works_.restart();
  started_count_ = 0;
  countdown_.restart();
}

void OrderedBuckets::finish() {
  start_rest();
  works_.wait_for(works_.count());
}

void OrderedBuckets::start_rest() {
  while (started_count_ < bucket_count_) start(started_count_++);
}

void OrderedBuckets::start_complete() {
  while (started_count_ < bucket_count_ && countdown_.is_complete(started_count_)) start(started_count_++);
}

std::unique_ptr<GradientSync> make_bucket_sync(const SyncContext& context) {
  const auto parameters = values(context.trained);
  return std::make_unique<BucketSync>(parameters, assign_buckets(bytes_of(parameters)), context);
}

}  // namespace penstock::detail
