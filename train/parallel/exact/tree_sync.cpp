// TreeSync: leaves come by hooks of backward, sums go to buckets, buckets to the other ranks.
#include "train/parallel/exact/tree_sync.h"

#include <algorithm>
#include <utility>

#include "train/parallel/exact/leaf_sums.h"
#include "train/parallel/exact/rank_sums.h"
#include "train/parallel/strategy/buckets.h"
#include "train/parallel/sync/backward_hooks.h"
#include "train/parallel/sync/pending_collectives.h"
#include "train/tensor/storage.h"

namespace penstock::detail {
namespace {

/// Sums the leaves of this rank. What becomes of the sums is up to the classes below.
class LocalTree : public GradientSync {
 public:
  LocalTree(const NamedTensors& trained, int backward_count) : leaves_(values(trained), backward_count) {}

  void begin() override {
    for (const auto& parameter : parameters()) parameter.mutable_grad().reset();
  }
  void begin_backward(int micro_batch) override { leaf_ = micro_batch; }
  int64_t peak_bytes() const override { return peak_bytes_; }

 protected:
  LeafSums& leaves() { return leaves_; }
  const std::vector<torch::Tensor>& parameters() const { return leaves_.parameters(); }
  /// Takes the gradient of a parameter, if it has one. Returns whether its sum is there.
  bool take_leaf(size_t parameter, const torch::Tensor& root = {}) {
    const bool is_complete = leaves_.take(parameter, leaf_, root);
    note_peak();
    return is_complete;
  }
  void note_peak() { peak_bytes_ = std::max(peak_bytes_, leaves_.bytes() + other_bytes()); }

 private:
  /// Bytes of gradients beside those in the trees.
  virtual int64_t other_bytes() const { return 0; }

  LeafSums leaves_;
  int leaf_ = 0;
  int64_t peak_bytes_ = 0;
};

/// One rank: its sums are the gradients.
class OwnTree : public LocalTree {
 public:
  OwnTree(const NamedTensors& trained, int backward_count) : LocalTree(trained, backward_count) {}
  void end_backward() override {
    for (size_t i = 0; i < parameters().size(); ++i) take_leaf(i);
  }
  void finish() override {
    for (size_t i = 0; i < parameters().size(); ++i) {
      auto sum = leaves().sum(i);
      parameters()[i].mutable_grad() = sum.defined() ? std::move(sum) : torch::zeros_like(parameters()[i]);
    }
  }
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

/// Several ranks. Buckets start strictly in order, as with OrderedBuckets.
class RankTree final : public LocalTree {
 public:
  /// With `slices`, one entry per bucket, their `gradient` gets this rank's part of the sums, and parameters have no
  /// gradients afterwards.
  RankTree(const SyncContext& context, const std::vector<std::vector<size_t>>& members,
           std::vector<ShardedBucket> slices)
      : LocalTree(context.trained, context.backward_count),
        members_(members),
        slices_(std::move(slices)),
        comm_(context.comm),
        works_(context.recorder),
        sums_(comm_, works_),
        flats_(members.size()),
        missing_(members.size()),
        places_(parameters().size()),
        bucket_of_(parameters().size()),
        hooks_(parameters(), [this](size_t parameter) { after_accumulation(parameter); }) {
    for (size_t bucket = 0; bucket < members_.size(); ++bucket)
      for (const size_t i : members_[bucket]) bucket_of_[i] = bucket;
    if (slices_.empty()) take_flats();
  }

  void begin() override {
    LocalTree::begin();
    works_.restart();
    started_count_ = 0;
    for (size_t bucket = 0; bucket < members_.size(); ++bucket) missing_[bucket] = members_[bucket].size();
    if (!slices_.empty()) take_flats();
  }

  void finish() override {
    at::NoGradGuard no_grad;
    while (started_count_ < members_.size()) start(started_count_++);
    for (size_t bucket = 0; bucket < members_.size(); ++bucket) {
      works_.wait_for(bucket + 1);
      sums_.land();
    }
    if (!slices_.empty()) {
      flats_.assign(flats_.size(), {});
      places_.assign(places_.size(), {});
    } else {
      for (size_t i = 0; i < parameters().size(); ++i) parameters()[i].mutable_grad() = places_[i];
    }
  }

  std::vector<torch::Tensor> buffers() const override {
    auto list = flats_;
    for (const auto& slice : slices_) list.push_back(slice.gradient);
    return list;
  }

 private:
  int64_t other_bytes() const override {
    auto list = buffers();
    const auto gathered = sums_.gathered();
    list.insert(list.end(), gathered.begin(), gathered.end());
    return storage_bytes(list);
  }

  /// Memory for the sums of all buckets, of which the parameters' places are views.
  void take_flats() {
    for (size_t bucket = 0; bucket < members_.size(); ++bucket) {
      const auto offsets = slices_.empty() ? offsets_of(parameters(), members_[bucket]) : slices_[bucket].offsets;
      const int64_t count = slices_.empty() ? offsets.back() : slices_[bucket].whole.numel();
      const auto& members = members_[bucket];
      const auto options = parameters()[members.front()].options().requires_grad(false);
      flats_[bucket] = slices_.empty() ? comm_.allocate(count, options) : torch::zeros({count}, options);
      for (size_t k = 0; k < members.size(); ++k) {
        const auto& parameter = parameters()[members[k]];
        places_[members[k]] = flats_[bucket].as_strided(parameter.sizes(), parameter.strides(), offsets[k]);
      }
    }
  }

  void after_accumulation(size_t parameter) {
    const size_t bucket = bucket_of_[parameter];
    if (!take_leaf(parameter, places_[parameter]) || --missing_[bucket] > 0) return;
    while (started_count_ < members_.size() && missing_[started_count_] == 0) start(started_count_++);
  }

  void start(size_t bucket) {
    for (const size_t i : members_[bucket]) leaves().write(i, places_[i]);
    sums_.start(flats_[bucket], slices_.empty() ? flats_[bucket] : slices_[bucket].gradient);
    note_peak();
  }

  std::vector<std::vector<size_t>> members_;  // one entry per bucket; of its parameters
  std::vector<ShardedBucket> slices_;         // one entry per bucket, or empty
  Comm& comm_;
  PendingCollectives works_;
  RankSums sums_;
  std::vector<torch::Tensor> flats_;   // one entry per bucket
  std::vector<size_t> missing_;        // one entry per bucket: its parameters without a sum
  std::vector<torch::Tensor> places_;  // one entry per parameter
  std::vector<size_t> bucket_of_;      // one entry per parameter
  size_t started_count_ = 0;
  AccumulationHooks hooks_;  // last: they use the others
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
