// TreeSync: leaves come by hooks of backward, sums go to buckets, buckets to the other ranks.
#include "train/parallel/exact/tree_sync.h"

#include <algorithm>
#include <utility>

#include "train/parallel/exact/leaf_sums.h"
#include "train/parallel/exact/rank_sums.h"
#include "train/parallel/strategy/buckets.h"
#include "train/parallel/sync/bucket_sync.h"
#include "train/tensor/storage.h"

namespace penstock::detail {
namespace {

/// One rank: its sums are the gradients.
class OwnTree : public GradientSync {
 public:
  OwnTree(const NamedTensors& trained, int backward_count) : leaves_(values(trained), backward_count) {}
  void begin() override { leaves_.reset(); }
  void begin_backward(int micro_batch) override { leaf_ = micro_batch; }
  void end_backward() override {
    for (size_t i = 0; i < leaves_.parameters().size(); ++i) {
      leaves_.take(i, leaf_);
      peak_bytes_ = std::max(peak_bytes_, leaves_.bytes());
    }
  }
  void finish() override {
    for (size_t i = 0; i < leaves_.parameters().size(); ++i) {
      const auto& parameter = leaves_.parameters()[i];
      auto sum = leaves_.sum(i);
      parameter.mutable_grad() = sum.defined() ? std::move(sum) : torch::zeros_like(parameter);
    }
  }
  int64_t peak_bytes() const override { return peak_bytes_; }

 private:
  LeafSums leaves_;
  int leaf_ = 0;
  int64_t peak_bytes_ = 0;
};

class CollectedTree final : public OwnTree {
 public:
  CollectedTree(const NamedTensors& trained, int backward_count, std::function<void()> collect,
                std::function<void()> reset)
      : OwnTree(trained, backward_count), collect_(std::move(collect)), reset_(std::move(reset)) {}
  void begin() override { reset_(); }
  void end_backward() override {
    collect_();
    OwnTree::end_backward();
    reset_();
  }

 private:
  std::function<void()> collect_, reset_;
};

/// Several ranks.
class RankTree final : public OrderedBuckets {
 public:
  /// With `slices`, one entry per bucket, their `gradient` gets this rank's part of the sums, and parameters have no
  /// gradients afterwards.
  RankTree(const SyncContext& context, std::vector<std::vector<size_t>> members, std::vector<ShardedBucket> slices)
      : OrderedBuckets(values(context.trained), std::move(members), context.recorder, context.backward_count),
        slices_(std::move(slices)),
        comm_(context.comm),
        leaves_(values(context.trained), context.backward_count),
        sums_(comm_, works()),
        flats_(this->members().size()),
        places_(context.trained.size()) {
    if (slices_.empty()) take_flats();
  }

  void begin() override {
    leaves_.reset();
    if (!slices_.empty()) take_flats();
    OrderedBuckets::begin();
  }
  void begin_backward(int micro_batch) override { leaf_ = micro_batch; }
  void gradient_is_there(size_t parameter) override {
    leaves_.take(parameter, leaf_, places_[parameter]);
    note_peak();
    OrderedBuckets::gradient_is_there(parameter);
  }

  void finish() override {
    at::NoGradGuard no_grad;
    start_rest();
    for (size_t bucket = 0; bucket < flats_.size(); ++bucket) {
      works().wait_for(bucket + 1);
      sums_.land();
    }
    if (!slices_.empty()) {
      flats_.assign(flats_.size(), {});
      places_.assign(places_.size(), {});
    } else {
      for (size_t i = 0; i < places_.size(); ++i) leaves_.parameters()[i].mutable_grad() = places_[i];
    }
  }

  int64_t peak_bytes() const override { return peak_bytes_; }
  std::vector<torch::Tensor> buffers() const override {
    auto list = flats_;
    for (const auto& slice : slices_) list.push_back(slice.gradient);
    return list;
  }

 private:
  void note_peak() {
    auto list = buffers();
    const auto gathered = sums_.gathered();
    list.insert(list.end(), gathered.begin(), gathered.end());
    peak_bytes_ = std::max(peak_bytes_, leaves_.bytes() + storage_bytes(list));
  }

  /// Memory for the sums of all buckets, of which the parameters' places are views.
  void take_flats() {
    const auto& parameters = leaves_.parameters();
    for (size_t bucket = 0; bucket < flats_.size(); ++bucket) {
      const auto& members = this->members()[bucket];
      const auto offsets = slices_.empty() ? offsets_of(parameters, members) : slices_[bucket].offsets;
      const int64_t count = slices_.empty() ? offsets.back() : slices_[bucket].whole.numel();
      const auto options = parameters[members.front()].options().requires_grad(false);
      flats_[bucket] = slices_.empty() ? comm_.allocate(count, options) : torch::zeros({count}, options);
      for (size_t k = 0; k < members.size(); ++k) {
        const auto& parameter = parameters[members[k]];
        places_[members[k]] = flats_[bucket].as_strided(parameter.sizes(), parameter.strides(), offsets[k]);
      }
    }
  }

  void start(size_t bucket) override {
    for (const size_t i : members()[bucket]) leaves_.write(i, places_[i]);
    sums_.start(flats_[bucket], slices_.empty() ? flats_[bucket] : slices_[bucket].gradient);
    note_peak();
  }

  std::vector<ShardedBucket> slices_;  // one entry per bucket, or empty
  Comm& comm_;
  LeafSums leaves_;
  RankSums sums_;
  std::vector<torch::Tensor> flats_;   // one entry per bucket
  std::vector<torch::Tensor> places_;  // one entry per parameter
  int leaf_ = 0;
  int64_t peak_bytes_ = 0;
};

}  // namespace

std::unique_ptr<GradientSync> make_tree_sync(const SyncContext& context) {
  if (context.comm.world_size() == 1) return std::make_unique<OwnTree>(context.trained, context.backward_count);
  return std::make_unique<RankTree>(context, assign_buckets(bytes_of(values(context.trained))),
                                    std::vector<ShardedBucket>());
}

std::unique_ptr<GradientSync> make_tree_scatter(const SyncContext& context, const std::vector<ShardedBucket>& buckets) {
  return std::make_unique<RankTree>(context, members_of(buckets), buckets);
}

std::unique_ptr<GradientSync> make_collected_tree(const SyncContext& context, std::function<void()> collect,
                                                  std::function<void()> reset) {
  return std::make_unique<CollectedTree>(context.trained, context.backward_count, std::move(collect), std::move(reset));
}

}  // namespace penstock::detail
