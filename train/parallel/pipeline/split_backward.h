// SplitBackward: backward of one part in two halves, first to its input, later to its parameters.
#pragma once

#include <torch/csrc/autograd/function.h>
#include <torch/types.h>

#include <memory>
#include <vector>

namespace penstock::detail {

/// Qi et al. 2024, "Zero bubble pipeline parallelism", sec. 2: what the part before this one waits for is computed
/// first. The way from the output to the input is walked once; where a parameter joins it (at a convolution, a linear
/// layer, a BatchNorm) the first half keeps the gradient that arrives, and the second half goes from there to the
/// parameter alone. Deviation: a parameter that joins in several places would then get the gradient of some of them
/// twice, so a part that has one walks the whole way again in its second half.
///
/// Cost: the graph, and a gradient per joint, stay until the second half. Both halves of a BatchNorm sum over the
/// micro-batch.
///
/// Thread-safety: one thread.
class SplitBackward {
 public:
  /// First half: adds to `input.grad()`. `output` is the part's output, or the loss; `gradient` is that of it.
  SplitBackward(const torch::Tensor& output, const torch::Tensor& gradient, const torch::Tensor& input);

  /// Second half: adds to the gradients of the parameters, by their accumulators, so that hooks hear of each once.
  /// `parameters`: all that get a gradient; others that the graph knows get none. At most once.
  void finish(const std::vector<torch::Tensor>& parameters);

 private:
  /// A node on the way to the input from which there is also one to parameters.
  struct Joint {
    std::shared_ptr<torch::autograd::Node> node;
    torch::autograd::edge_list parameters;                    // their accumulators
    std::shared_ptr<torch::autograd::variable_list> arrived;  // gradients at the node
  };

  void find_joints(const torch::autograd::Node* end);

  torch::Tensor output_, gradient_;
  std::vector<Joint> joints_;
  bool is_tree_ = true;  // each parameter joins once
};

}  // namespace penstock::detail
