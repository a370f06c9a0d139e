// Compressed gradients: the order of a step, its measure, and 16-bit sums.
#include "train/parallel/sync/compressed_sync.h"

#include <deque>
#include <limits>

#include "train/parallel/sync/bucket_sync.h"

namespace penstock::detail {
namespace {

class CompressedSync final : public OrderedBuckets {
 public:
  CompressedSync(const NamedTensors& trained, const std::vector<std::vector<size_t>>& members, Comm& comm,
                 Recorder& recorder, int backward_count, std::string owner, const MakeCodec& make_codec)
      : OrderedBuckets(values(trained), members, recorder, backward_count),
        comm_(comm),
        owner_(std::move(owner)),
        buckets_(bucket_gradients(values(trained), members, comm)) {
    for (const auto& bucket : buckets_) codecs_.push_back(make_codec(trained, bucket, comm));
  }

  void measure_next() override { is_measured_ = true; }
  torch::Tensor compression_error() const override { return error_; }

  void begin() override {
    for (auto& bucket : buckets_) bucket.flat.zero_();
    OrderedBuckets::begin();
  }

  void finish() override {
    at::NoGradGuard no_grad;
    OrderedBuckets::finish();
    for (auto& codec : codecs_)
      if (auto work = codec->turn()) works().add(std::move(work));
    works().wait_for(works().count());
    for (auto& codec : codecs_) codec->finish();
    error_ = is_measured_ ? measured() : torch::Tensor();
    is_measured_ = false;
    truths_.clear();
  }

  RankLocalState rank_local_state() override {
    RankLocalState all{owner_, {}};
    for (auto& codec : codecs_)
      for (auto& item : codec->kept()) all.tensors.push_back(std::move(item));
    return all;
  }

 private:
  void start(size_t bucket) override {
    at::NoGradGuard no_grad;
    if (is_measured_) {
      auto& truth = truths_.emplace_back(buckets_[bucket].flat.clone());
      works().start([&] { return comm_.all_reduce_sum(truth); });
    }
    works().start([&] { return codecs_[bucket]->start(); });  // compressing is a part of what sending costs
  }

  torch::Tensor measured() const {
    auto difference = torch::zeros({}, buckets_.front().flat.options().dtype(torch::kFloat64));
    auto truth = torch::zeros_like(difference);
    for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
      difference += (buckets_[bucket].flat - truths_[bucket]).to(torch::kFloat64).square().sum();
      truth += truths_[bucket].to(torch::kFloat64).square().sum();
    }
    return (difference / truth.clamp_min(std::numeric_limits<double>::min())).sqrt();
  }

  Comm& comm_;
  std::string owner_;
  std::vector<Bucket> buckets_;
  std::vector<std::unique_ptr<BucketCodec>> codecs_;  // one entry per bucket
  bool is_measured_ = false;
  std::deque<torch::Tensor> truths_;  // in a step that is measured: one entry per bucket that was started
  torch::Tensor error_;
};

class HalfCodec final : public BucketCodec {
 public:
  HalfCodec(torch::Tensor flat, Comm& comm)
      : flat_(std::move(flat)), half_(comm.allocate(flat_.numel(), flat_.options().dtype(torch::kHalf))), comm_(comm) {}
  std::unique_ptr<Comm::Work> start() override {
    half_.copy_(flat_);
    return comm_.all_reduce_sum(half_);
  }
  void finish() override { flat_.copy_(half_); }

 private:
  torch::Tensor flat_, half_;
  Comm& comm_;
};

}  // namespace

std::unique_ptr<GradientSync> make_compressed_sync(const SyncContext& context, const std::string& owner,
                                                   const MakeCodec& make_codec) {
  return std::make_unique<CompressedSync>(context.trained, assign_buckets(bytes_of(values(context.trained))),
                                          context.comm, context.recorder, context.backward_count, owner, make_codec);
}

std::unique_ptr<BucketCodec> make_half_codec(const NamedTensors&, const Bucket& bucket, Comm& comm) {
  return std::make_unique<HalfCodec>(bucket.flat, comm);
}

}  // namespace penstock::detail
