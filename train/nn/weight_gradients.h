// WeightGradients: the gradients of large weights over several micro-batches at once.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

namespace penstock {

/// The gradient of a layer's weight is a product of two factors, the layer's input and the gradient of its output.
/// Making it reads and writes the whole weight, which is most of the work where a micro-batch is smaller than the
/// weight. Example, one core: a 3 x 3 convolution of 512 to 512 channels on 2 x 2 maps with 8 rows takes 60 ms for both
/// gradients of eight micro-batches, 8 ms for the inputs and 52 ms for the weight. One product for all eight takes 11
/// ms in place of the 52. A step of ResNet-18 at 64 px in eight micro-batches of 8 rows took 0.76 of the processor time
/// where the two ways took turns from step to step in one process; whole runs do not show it yet (DECISIONS-TRAIN).
/// So layers that run while this is current keep the factors if they are small, and multiply them at once:
///
///     backward of     micro-batch 0   1   2   3
///     keeps           x0 g0          x1 g1   x2 g2
///     adds to grad                                 [x0 x1 x2 x3] [g0 g1 g2 g3]
///
/// Autograd sees no gradient of such a weight in a micro-batch that keeps its factors; hooks of its accumulator run all
/// the same. What is kept takes no more memory than the weight, for each size on which a layer runs: where the next
/// factors would take more, the product is made at once. A factor that is a view keeps its whole storage.
///
/// Determinism: rows are joined in the order of the backwards. The result differs from that of one large batch by
/// rounding alone. How a product is made follows from sizes alone.
///
/// Thread-safety: one thread runs forwards; backwards run on it or, one at a time, on autograd's. Outlives the graphs
/// that were made under it.
class WeightGradients {
 public:
  /// While this lives, layers that run on this thread keep factors in `gradients`. Null: they keep none.
  class Scope {
   public:
    explicit Scope(WeightGradients* gradients);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    WeightGradients* before_;
  };
  static WeightGradients* current();  ///< Null: none.

  WeightGradients() = default;
  WeightGradients(const WeightGradients&) = delete;
  WeightGradients& operator=(const WeightGradients&) = delete;

  /// Before each backward. In the last one of a step all that a layer has kept is multiplied.
  void begin_backward(bool is_last) { is_last_ = is_last; }
  bool empty() const;              ///< Whether nothing is kept.
  void clear() { kept_.clear(); }  ///< Forgets what a step has kept that did not end.
  /// After the last backward: adds the products of all factors that are still kept.
  void finish();

  /// Whether the factors of one micro-batch, `numbers` numbers together, are small enough to be kept.
  static bool keeps(const torch::Tensor& weight, int64_t numbers) { return 2 * numbers <= weight.numel(); }

  using Multiply = std::function<torch::Tensor(const torch::Tensor& x, const torch::Tensor& gradient)>;
  /// One micro-batch of a layer, both factors with its rows first. Gives a gradient of `weight`, or an undefined tensor
  /// if that is to come later.
  torch::Tensor add(const torch::Tensor& weight, const torch::Tensor& x, const torch::Tensor& gradient,
                    const Multiply& multiply);

 private:
  /// What one layer has kept. A layer that runs several times has an entry for each size of x.
  struct Factors {
    torch::Tensor weight;
    std::vector<torch::Tensor> x, gradients;
    Multiply multiply;
    int64_t numbers = 0;
    torch::Tensor take();
  };

  bool is_last_ = true;
  std::map<std::pair<const void*, std::vector<int64_t>>, Factors> kept_;  // by weight, and the sizes of a row of x
};

/// What torch::conv2d() and torch::linear() give, to the bit, for weights whose gradients are made by `gradients`,
/// which outlives the graph. Shapes and dtypes are theirs: x is N x C x H x W, or N x in_features; `bias` may be
/// undefined. Thread-safety: that of WeightGradients.
torch::Tensor conv2d(WeightGradients& gradients, const torch::Tensor& x, const torch::Tensor& weight,
                     const torch::Tensor& bias, torch::IntArrayRef stride, torch::IntArrayRef padding,
                     torch::IntArrayRef dilation, int64_t groups);
torch::Tensor linear(WeightGradients& gradients, const torch::Tensor& x, const torch::Tensor& weight,
                     const torch::Tensor& bias);

}  // namespace penstock
