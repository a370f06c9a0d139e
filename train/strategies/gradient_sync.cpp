// GradientSync: none, and buckets that are reduced under backward.
#include "train/strategies/gradient_sync.h"

#include <deque>

#include "train/strategies/backward_hooks.h"
#include "train/strategies/buckets.h"

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

 private:
  std::vector<torch::Tensor> trained_;
};

/// Starts one collective per bucket, strictly in order: all ranks must call them in one order, whatever order their
/// hooks came in.
class OrderedBuckets : public GradientSync {
 public:
  OrderedBuckets(const std::vector<torch::Tensor>& parameters, const std::vector<std::vector<size_t>>& members,
                 Recorder& recorder, int backward_count)
      : recorder_(recorder),
        bucket_count_(members.size()),
        countdown_(parameters, members, backward_count, [this](size_t) { start_complete(); }) {}

  void begin() override {
    for (auto& work : works_) timed_.push_back(std::move(work));
    works_.clear();
    waited_count_ = 0;
    // On a device they end when it gets there, which nobody waits for.
    for (; !timed_.empty(); timed_.pop_front()) {
      const auto under_way_ms = timed_.front()->under_way_ms();
      if (!under_way_ms) break;
      recorder_.add_collectives(*under_way_ms);
    }
    countdown_.restart();
  }

  /// Parameters that got no gradient (unused, or a rank without samples) leave buckets unstarted: they count as zeros.
  void finish() override {
    while (works_.size() < bucket_count_) start_next();
    wait_for(bucket_count_);
  }

 protected:
  /// The first `count` buckets of this step are there when this returns.
  void wait_for(size_t count) {
    for (; waited_count_ < count; ++waited_count_) works_[waited_count_]->wait();
  }

 private:
  virtual std::unique_ptr<Comm::Work> start(size_t bucket) = 0;
  void start_complete() {
    while (works_.size() < bucket_count_ && countdown_.is_complete(works_.size())) start_next();
  }
  void start_next() { works_.push_back(start(works_.size())); }

  Recorder& recorder_;
  size_t bucket_count_;
  std::vector<std::unique_ptr<Comm::Work>> works_;  // one entry per bucket that was started in this step
  size_t waited_count_ = 0;
  std::deque<std::unique_ptr<Comm::Work>> timed_;  // of earlier steps, not ended yet
  BucketCountdown countdown_;                      // last: its hooks use the others
};

class BucketSync final : public OrderedBuckets {
 public:
  BucketSync(const std::vector<torch::Tensor>& parameters, const std::vector<std::vector<size_t>>& members, Comm& comm,
             Recorder& recorder, int backward_count)
      : OrderedBuckets(parameters, members, recorder, backward_count),
        comm_(comm),
        buckets_(bucket_gradients(parameters, members)) {}

  void begin() override {
    for (auto& bucket : buckets_) bucket.flat.zero_();
    OrderedBuckets::begin();
  }

 private:
  std::unique_ptr<Comm::Work> start(size_t bucket) override { return comm_.all_reduce_sum(buckets_[bucket].flat); }

  Comm& comm_;
  std::vector<Bucket> buckets_;
};

class ScatterSync final : public OrderedBuckets {
 public:
  ScatterSync(const std::vector<torch::Tensor>& parameters, const std::vector<std::vector<size_t>>& members, Comm& comm,
              Recorder& recorder, int backward_count, std::shared_ptr<GradientSlices> slices)
      : OrderedBuckets(parameters, members, recorder, backward_count),
        comm_(comm),
        parameters_(parameters),
        members_(members),
        slices_(std::move(slices)) {}

  void begin() override {
    for (const auto& parameter : parameters_) parameter.mutable_grad().reset();
    OrderedBuckets::begin();
  }
  void finish() override {
    OrderedBuckets::finish();
    flats_.clear();
  }
  std::vector<torch::Tensor> buffers() const override {
    auto list = slices_->buckets;
    list.insert(list.end(), flats_.begin(), flats_.end());
    return list;
  }
  int64_t peak_bytes() const override { return peak_bytes_; }

 private:
  std::unique_ptr<Comm::Work> start(size_t bucket) override {
    at::NoGradGuard no_grad;
    // The one before the last has to be there, so that two buckets take memory at most.
    if (bucket > 1) {
      wait_for(bucket - 1);
      flats_.pop_front();
    }
    auto& slice = slices_->buckets[bucket];
    auto& flat = flats_.emplace_back(torch::zeros({slice.numel() * comm_.world_size()}, slice.options()));
    measure();
    int64_t offset = 0;
    for (const size_t i : members_[bucket]) {
      const auto& parameter = parameters_[i];
      if (parameter.grad().defined())
        flat.as_strided(parameter.sizes(), parameter.strides(), offset).copy_(parameter.grad());
      parameter.mutable_grad().reset();
      offset += parameter.numel();
    }
    return comm_.reduce_scatter_sum(slice, flat);
  }

  void measure() {
    auto alive = buffers();
    for (const auto& parameter : parameters_) alive.push_back(parameter.grad());
    peak_bytes_ = std::max(peak_bytes_, storage_bytes(alive));
  }

  Comm& comm_;
  std::vector<torch::Tensor> parameters_;
  std::vector<std::vector<size_t>> members_;  // one entry per bucket
  std::shared_ptr<GradientSlices> slices_;
  std::deque<torch::Tensor> flats_;  // gradients of the buckets that are on their way
  int64_t peak_bytes_ = 0;
};

}  // namespace

std::unique_ptr<GradientSync> make_no_sync(const NamedTensors& trained) { return std::make_unique<NoSync>(trained); }

std::unique_ptr<GradientSync> make_bucket_sync(const NamedTensors& trained, Comm& comm, Recorder& recorder,
                                               int backward_count) {
  const auto parameters = values(trained);
  return std::make_unique<BucketSync>(parameters, assign_buckets(bytes_of(parameters)), comm, recorder, backward_count);
}

std::unique_ptr<GradientSync> make_scatter_sync(const NamedTensors& trained, Comm& comm, Recorder& recorder,
                                                int backward_count, std::shared_ptr<GradientSlices> slices) {
  const auto parameters = values(trained);
  return std::make_unique<ScatterSync>(parameters, assign_buckets(bytes_of(parameters)), comm, recorder, backward_count,
                                       std::move(slices));
}

}  // namespace penstock::detail
