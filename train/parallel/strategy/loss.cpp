// The loss of some rows.
#include "train/parallel/strategy/loss.h"

namespace penstock::detail {

Targets::Targets(const DeviceBatch& batch, int64_t first, int64_t count, double smoothing)
    : smoothing_(smoothing),
      labels_(batch.labels.narrow(0, first, count)),
      weights_(batch.weights.narrow(0, first, count)) {
  if (!batch.second_labels.defined()) return;
  second_labels_ = batch.second_labels.narrow(0, first, count);
  mix_weights_ = batch.mix_weights.narrow(0, first, count);
}

/// With smoothing e and K classes: (1 - e) * -log p(label) + e / K * the sum of -log p over all classes.
torch::Tensor Targets::cross_entropy(const torch::Tensor& logits, const torch::Tensor& labels) const {
  return torch::cross_entropy_loss(logits, labels, {}, at::Reduction::None, /*ignore_index=*/-100, smoothing_);
}

torch::Tensor Targets::losses(const torch::Tensor& logits) const {
  const auto own = cross_entropy(logits, labels_);
  if (!second_labels_.defined()) return own;
  const auto second = cross_entropy(logits, second_labels_);
  return own * mix_weights_ + second * (1 - mix_weights_);
}

torch::Tensor Targets::loss(const torch::Tensor& logits) const { return (losses(logits) * weights_).sum(); }

torch::Tensor Targets::hits(const torch::Tensor& logits) const {
  const auto main = second_labels_.defined() ? torch::where(mix_weights_.ge(0.5), labels_, second_labels_) : labels_;
  return logits.argmax(1).eq(main).logical_and_(weights_.gt(0)).sum();
}

}  // namespace penstock::detail
