// The loss of some rows.
#include "train/strategies/loss.h"

namespace penstock::detail {

Targets::Targets(const DeviceBatch& batch, int64_t first, int64_t count)
    : labels_(batch.labels.narrow(0, first, count)), weights_(batch.weights.narrow(0, first, count)) {
  if (!batch.second_labels.defined()) return;
  second_labels_ = batch.second_labels.narrow(0, first, count);
  mix_weights_ = batch.mix_weights.narrow(0, first, count);
}

torch::Tensor Targets::losses(const torch::Tensor& logits) const {
  const auto own = torch::cross_entropy_loss(logits, labels_, {}, at::Reduction::None);
  if (!second_labels_.defined()) return own;
  const auto second = torch::cross_entropy_loss(logits, second_labels_, {}, at::Reduction::None);
  return own * mix_weights_ + second * (1 - mix_weights_);
}

torch::Tensor Targets::loss(const torch::Tensor& logits) const { return (losses(logits) * weights_).sum(); }

torch::Tensor Targets::hits(const torch::Tensor& logits) const {
  const auto main = second_labels_.defined() ? torch::where(mix_weights_.ge(0.5), labels_, second_labels_) : labels_;
  return logits.argmax(1).eq(main).logical_and_(weights_.gt(0)).sum();
}

}  // namespace penstock::detail
