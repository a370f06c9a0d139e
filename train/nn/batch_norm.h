// BatchNorm2d: torch::nn::BatchNorm2d, which can also take its statistics over the rows of several ranks, or its
// running statistics over several micro-batches.
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
///
/// With defer(), outputs and gradients stay the same, and the running statistics move by commit() alone: once per step
/// by those of all its micro-batches (Kim et al. 2020, "torchgpipe", its DeferredBatchNorm). Deviation from it: the
/// running variance is the unbiased one, as where the batch is whole.
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

  /// From now on, forwards leave the running statistics alone. Not together with gather_by().
  void defer(bool on);
  /// Whether the forwards from now on count for take_collected().
  void collect(bool on) { collects_ = on; }
  /// The sums of the forwards that have counted since the last call: f64, means and squared deviations of the channels,
  /// and the elements per channel, 2 C + 1 numbers; zeros if there were none.
  torch::Tensor take_collected();
  /// Moves the running statistics once by those of all rows of `all`, N x (2 C + 1), of which each is as
  /// take_collected() gives it; not if these are zeros. Waits for nothing on the device.
  void commit(const torch::Tensor& all);

 private:
  torch::Tensor synced(const torch::Tensor& x, const torch::Tensor& own_weight, const torch::Tensor& own_bias);
  torch::Tensor deferred(const torch::Tensor& x, const torch::Tensor& own_weight, const torch::Tensor& own_bias);

  GatherRanks gather_;
  double gradient_scale_ = 1;
  bool defers_ = false, collects_ = false;
  torch::Tensor collected_;  // as take_collected() gives it; undefined: nothing
};
TORCH_MODULE(BatchNorm2d);

}  // namespace penstock
