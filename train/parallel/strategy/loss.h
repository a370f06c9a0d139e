// The loss of some rows, and how many of them were hit.
#pragma once

#include "train/tensor/device_batch.h"

namespace penstock::detail {

/// Rows first .. first + count - 1 of a batch as the loss sees them.
struct Targets {
  /// `smoothing`: the share of each label that is spread evenly over all classes (Szegedy et al. 2016, "Rethinking the
  /// Inception architecture", sec. 7).
  Targets(const DeviceBatch& batch, int64_t first, int64_t count, double smoothing = 0);

  /// Scalar: sum(weight * cross entropy), where the cross entropy of a mixed row is share * that of its own label + (1
  /// - share) * that of its second one.
  torch::Tensor loss(const torch::Tensor& logits) const;
  /// i64 scalar: rows of weight above 0 whose largest logit is the label of the greater share, at a half the own one.
  torch::Tensor hits(const torch::Tensor& logits) const;

 private:
  torch::Tensor losses(const torch::Tensor& logits) const;

  torch::Tensor cross_entropy(const torch::Tensor& logits, const torch::Tensor& labels) const;

  double smoothing_;
  torch::Tensor labels_, weights_;
  torch::Tensor second_labels_, mix_weights_;  // undefined where nothing is mixed
};

}  // namespace penstock::detail
