// Update: whole, and sliced over the ranks.
#include "train/strategies/update.h"

#include <algorithm>

#include "train/strategies/buckets.h"

namespace penstock::detail {
namespace {

class WholeUpdate final : public Update {
 public:
  explicit WholeUpdate(const UpdateContext& context)
      : sgd_(values(context.trained), context.options, context.rate_factors) {}
  void step() override { sgd_.step(); }
  void set_learning_rate(double learning_rate) override { sgd_.set_learning_rate(learning_rate); }
  std::vector<torch::Tensor> state_tensors() const override { return sgd_.momentum(); }
  std::vector<torch::Tensor> momentum() override { return sgd_.momentum(); }
  void load_momentum(const std::vector<torch::Tensor>& momentum) override {
    for (size_t i = 0; i < momentum.size(); ++i) sgd_.momentum()[i].copy_(momentum[i]);
  }

 private:
  Sgd sgd_;
};

/// The elements of one parameter that lie in this rank's slice of a bucket.
struct Piece {
  size_t parameter;
  int64_t first, count;  // elements of the parameter, in the order of its memory
  torch::Tensor values;  // one dimension, a view into the bucket
  size_t bucket;
  int64_t slice_offset;  // in this rank's slice of the bucket
};

/// A tensor's memory as one dimension. Requires a dense tensor.
torch::Tensor flattened(const torch::Tensor& tensor) { return tensor.as_strided({tensor.numel()}, {1}); }

class SlicedUpdate final : public Update {
 public:
  SlicedUpdate(const UpdateContext& context, std::shared_ptr<GradientSlices> slices)
      : comm_(context.comm), trained_(values(context.trained)), slices_(std::move(slices)) {
    at::NoGradGuard no_grad;
    for (const auto& members : assign_buckets(bytes_of(trained_))) move_into_bucket(members);
    if (slices_)
      for (const auto& bucket : buckets_) slices_->buckets.push_back(torch::zeros_like(slice_of(bucket)));
    std::vector<torch::Tensor> parts;
    std::vector<double> factors;
    for (const auto& piece : pieces_) {
      parts.push_back(piece.values);
      if (!context.rate_factors.empty()) factors.push_back(context.rate_factors[piece.parameter]);
    }
    sgd_.emplace(parts, context.options, factors);
  }

  void step() override {
    at::NoGradGuard no_grad;
    for (const auto& piece : pieces_) piece.values.mutable_grad() = gradient_of(piece);
    sgd_->step();
    for (auto& bucket : buckets_) comm_.all_gather_into(bucket, slice_of(bucket))->wait();
  }

  void set_learning_rate(double learning_rate) override { sgd_->set_learning_rate(learning_rate); }
  std::vector<torch::Tensor> state_tensors() const override { return sgd_->momentum(); }

  std::vector<torch::Tensor> momentum() override {
    at::NoGradGuard no_grad;
    std::vector<torch::Tensor> whole;
    for (const auto& parameter : trained_) whole.push_back(torch::zeros_like(parameter));
    for (size_t i = 0; i < pieces_.size(); ++i) part_of(whole, pieces_[i]).copy_(sgd_->momentum()[i]);
    // Every element is held by one rank and 0 at the others.
    for (auto& tensor : whole) comm_.all_reduce_sum(tensor)->wait();
    return whole;
  }

  void load_momentum(const std::vector<torch::Tensor>& momentum) override {
    at::NoGradGuard no_grad;
    for (size_t i = 0; i < pieces_.size(); ++i) {
      // With the parameter's strides, in which the piece counts.
      const auto like = torch::empty_like(trained_[pieces_[i].parameter]).copy_(momentum[pieces_[i].parameter]);
      sgd_->momentum()[i].copy_(flattened(like).narrow(0, pieces_[i].first, pieces_[i].count));
    }
  }

 private:
  torch::Tensor gradient_of(const Piece& piece) const {
    if (slices_) return slices_->buckets[piece.bucket].narrow(0, piece.slice_offset, piece.count);
    return flattened(trained_[piece.parameter].grad()).narrow(0, piece.first, piece.count);
  }

  static torch::Tensor part_of(const std::vector<torch::Tensor>& whole, const Piece& piece) {
    return flattened(whole[piece.parameter]).narrow(0, piece.first, piece.count);
  }

  torch::Tensor slice_of(const torch::Tensor& bucket) const {
    const int64_t count = bucket.numel() / comm_.world_size();
    return bucket.narrow(0, comm_.rank() * count, count);
  }

  void move_into_bucket(const std::vector<size_t>& members) {
    int64_t element_count = 0;
    for (const size_t i : members) element_count += trained_[i].numel();
    const int64_t ranks = comm_.world_size(), slice = (element_count + ranks - 1) / ranks;
    auto bucket = torch::zeros({slice * ranks}, trained_[members.front()].options().requires_grad(false));
    const int64_t slice_begin = comm_.rank() * slice, slice_end = slice_begin + slice;
    int64_t offset = 0;
    for (const size_t i : members) {
      auto& parameter = trained_[i];
      const int64_t count = parameter.numel();
      bucket.narrow(0, offset, count).copy_(flattened(parameter.detach()));
      parameter.set_data(bucket.as_strided(parameter.sizes(), parameter.strides(), offset));
      const int64_t begin = std::max(offset, slice_begin), end = std::min(offset + count, slice_end);
      if (begin < end)
        pieces_.push_back({i, begin - offset, end - begin, bucket.narrow(0, begin, end - begin), buckets_.size(),
                           begin - slice_begin});
      offset += count;
    }
    buckets_.push_back(std::move(bucket));
  }

  Comm& comm_;
  std::vector<torch::Tensor> trained_;
  std::vector<torch::Tensor> buckets_;  // one dimension each: the parameters
  std::vector<Piece> pieces_;
  std::shared_ptr<GradientSlices> slices_;  // null: gradients are those of the parameters
  std::optional<Sgd> sgd_;
};

}  // namespace

std::unique_ptr<Update> make_whole_update(const UpdateContext& context) {
  return std::make_unique<WholeUpdate>(context);
}

std::unique_ptr<Update> make_sliced_update(const UpdateContext& context,
                                           const std::shared_ptr<GradientSlices>& slices) {
  return std::make_unique<SlicedUpdate>(context, slices);
}

}  // namespace penstock::detail
