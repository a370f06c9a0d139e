// GradientSync: none, and buckets that are reduced under backward.
#include "train/parallel/strategy/gradient_sync.h"

#include "core/error.h"
#include "train/parallel/sharding/reduce_scatter_sync.h"
#include "train/parallel/strategy/buckets.h"
#include "train/parallel/sync/bucket_sync.h"

namespace penstock::detail {
namespace {

class NoSync final : public GradientSync {
 public:
  explicit NoSync(const NamedTensors& trained) : trained_(values(trained)) {}
  void begin() override {
    for (const auto& parameter : trained_) parameter.mutable_grad().reset();
  }
  void finish() override {
    for (const auto& parameter : trained_)
      if (!parameter.grad().defined()) parameter.mutable_grad() = torch::zeros_like(parameter);
  }
  bool takes_late_gradients() const override { return true; }

 private:
  std::vector<torch::Tensor> trained_;
};

class BucketSync final : public OrderedBuckets {
 public:
  BucketSync(const std::vector<torch::Tensor>& parameters, const std::vector<std::vector<size_t>>& members, Comm& comm,
             Recorder& recorder, int backward_count)
      : OrderedBuckets(parameters, members, recorder, backward_count),
        comm_(comm),
        recorder_(recorder),
        buckets_(bucket_gradients(parameters, members, comm)) {}

  void begin() override {
    for (auto& bucket : buckets_) bucket.flat.zero_();
    handed_count_ = 0;
    OrderedBuckets::begin();
  }

  void finish() override {
    if (!use_) return OrderedBuckets::finish();
    start_rest();
    while (handed_count_ < buckets_.size()) hand_over_next(Phase::kCommunication);
  }

  void hand_over(std::function<void(size_t)> use) override { use_ = std::move(use); }

 private:
  void start(size_t bucket) override {
    works().start([&] { return comm_.all_reduce_sum(buckets_[bucket].flat); });
  }

  void after_gradient() override {
    if (!use_) return;
    while (handed_count_ < works().count() && works().is_done(handed_count_)) hand_over_next(Phase::kBackward);
  }

  /// `before`: what this rank did up to here.
  void hand_over_next(Phase before) {
    works().wait_for(handed_count_ + 1);
    recorder_.mark(before);
    use_(handed_count_++);
    recorder_.mark(Phase::kOptimizer);
  }

  Comm& comm_;
  Recorder& recorder_;
  std::vector<Bucket> buckets_;
  std::function<void(size_t)> use_;  // empty: nobody asks for single buckets
  size_t handed_count_ = 0;
};

class ScatterSync final : public OrderedBuckets {
 public:
  ScatterSync(const std::vector<torch::Tensor>& parameters, const std::vector<std::vector<size_t>>& members, Comm& comm,
              Recorder& recorder, int backward_count, const std::vector<SlicedBucket>& buckets)
      : OrderedBuckets(parameters, members, recorder, backward_count), scatter_(parameters, buckets, comm, works()) {}

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

  GradientScatter scatter_;
};

}  // namespace

void GradientSync::hand_over(std::function<void(size_t)>) {
  throw bug_error("a gradient sync that has no sums of single buckets; expected make_bucket_sync()");
}

std::unique_ptr<GradientSync> make_no_sync(const NamedTensors& trained) { return std::make_unique<NoSync>(trained); }

std::unique_ptr<GradientSync> make_bucket_sync(const NamedTensors& trained, Comm& comm, Recorder& recorder,
                                               int backward_count) {
  const auto parameters = values(trained);
  return std::make_unique<BucketSync>(parameters, assign_buckets(bytes_of(parameters)), comm, recorder, backward_count);
}

std::unique_ptr<GradientSync> make_scatter_sync(const NamedTensors& trained, Comm& comm, Recorder& recorder,
                                                int backward_count, const std::vector<SlicedBucket>& buckets) {
  std::vector<std::vector<size_t>> members;
  for (const auto& bucket : buckets) members.push_back(bucket.members);
  return std::make_unique<ScatterSync>(values(trained), members, comm, recorder, backward_count, buckets);
}

}  // namespace penstock::detail
