// BatchNorm2d: torch::nn::BatchNorm2d, which can also take its statistics over the rows of several ranks.
#pragma once

#include <torch/nn/modules/batchnorm.h>

#include <functional>

namespace penstock {

/// Collective: the ranks' tensors, each of the same sizes, stacked along a new first dimension.
using GatherRanks = std::function<torch::Tensor(const torch::Tensor&)>;

/// Without gather_by(), and in evaluation mode, outputs are exactly those of LibTorch's layer, and without
/// take_scaled_gradients() so are gradients. Parameters, statistics and sums are f32 also
/// where x is in half precision; the output is of the dtype of x. With it, in training mode, mean and variance
/// are those of the rows of all ranks, in forward and in backward; running statistics are then the same at every rank.
/// A rank may have no rows: it runs forward and backward with a batch of size 0. Requires 2 elements per channel over
/// all ranks.
///
/// A rank's mean and sum of squared deviations are combined as in Chan, Golub, LeVeque 1979, "Updating formulae and a
/// pairwise algorithm for computing sample variances", eq. 2.1, so that no squares of large means are subtracted. One
/// collective of 2 C + 1 numbers in forward and one of 2 C in backward.
class BatchNorm2dImpl : public torch::nn::BatchNorm2dImpl {
 public:
  explicit BatchNorm2dImpl(int64_t channel_count)
      : torch::nn::BatchNorm2dImpl(torch::nn::BatchNormOptions(channel_count)) {}
  torch::Tensor forward(const torch::Tensor& x);
  /// From now on, statistics are those of all ranks; null: of this rank's rows.
  void gather_by(GatherRanks gather) { gather_ = std::move(gather); }
  /// From now on, where x is in half precision, its gradients and those of the output are `scale` times as large; those
  /// of weight and bias are not.
  void take_scaled_gradients(double scale) { gradient_scale_ = scale; }

 private:
  torch::Tensor synced(const torch::Tensor& x, const torch::Tensor& own_weight, const torch::Tensor& own_bias);

  GatherRanks gather_;
  double gradient_scale_ = 1;
};
TORCH_MODULE(BatchNorm2d);

}  // namespace penstock
