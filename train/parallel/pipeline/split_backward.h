// SplitBackward: backward of one part in two halves, first to its input, later to its parameters.
#pragma once

#include <torch/csrc/autograd/function.h>
#include <torch/types.h>

#include <memory>
#include <vector>

namespace penstock::detail {

/// The first half computes the gradient of the input, for which the pipeline stage before this one waits; the gradients
/// of the parameters can come later (Qi et al. 2024, "Zero bubble pipeline parallelism", sec. 2).
///
/// The first half walks the graph from the output to the input. Where a parameter joins that way (at a convolution, a
/// linear layer, a BatchNorm), it keeps the gradient that arrives there. The second half goes from each such joint to
/// the parameter alone. Deviation: a parameter that joins in several places would get some of its gradients twice, so a
/// model part with such a parameter walks the whole way again in its second half.
///
/// Cost: the graph, and one gradient per joint, stay in memory until the second half. Each half of a BatchNorm's
/// backward sums over the micro-batch.
///
/// Thread-safety: one thread.
class SplitBackward {
 public:
  /// First half: adds to `input.grad()`. `output` is what the part gave, or the loss; `gradient` is its gradient.
  SplitBackward(const torch::Tensor& output, const torch::Tensor& gradient, const torch::Tensor& input);

  /// Second half: adds to the gradients of `parameters`, and of no others that the graph knows. Each goes through its
  /// accumulator once, as in a whole backward, so that hooks run once. To be called once at most.
  void finish(const std::vector<torch::Tensor>& parameters);

 private:
  /// std::shared_ptr up to LibTorch 2.11 at least, c10::intrusive_ptr in 2.15.
  using NodePointer = decltype(torch::autograd::Edge::function);

  /// A node on the way to the input from which another way leads to parameters.
  struct Joint {
    NodePointer node;
    torch::autograd::edge_list parameters;                    // their accumulators
    std::shared_ptr<torch::autograd::variable_list> arrived;  // gradients at the node
  };

  void find_joints(const torch::autograd::Node* end);

  torch::Tensor output_, gradient_;
  std::vector<Joint> joints_;
  bool is_tree_ = true;  // each parameter joins once
};

}  // namespace penstock::detail
