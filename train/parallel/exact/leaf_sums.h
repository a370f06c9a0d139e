// LeafSums: the gradients of one rank's micro-batches, each parameter's summed by a PairwiseSum (--exact).
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "train/tensor/ordered_sum.h"

namespace penstock::detail {

/// Thread-safety: that of its caller.
class LeafSums {
 public:
  /// Requires a power of two of leaves.
  LeafSums(std::vector<torch::Tensor> parameters, int leaf_count);

  /// No parameter has a gradient from now on.
  void reset();
  /// Takes the gradient away from a parameter, if it has one, and adds it as that of `leaf`. With a `root`, the last
  /// addition writes there.
  void take(size_t parameter, int leaf, const torch::Tensor& root = {});
  /// The sum of the leaves that have come; the next one starts with none. Undefined if there were none.
  torch::Tensor sum(size_t parameter);
  /// The same, written to `place`: zeros if there were none.
  void write(size_t parameter, torch::Tensor place);

  const std::vector<torch::Tensor>& parameters() const { return parameters_; }
  /// What is held now, without the roots' memory.
  int64_t bytes() const { return bytes_; }

 private:
  std::vector<torch::Tensor> parameters_;
  std::vector<PairwiseSum> trees_;  // one entry per parameter
  int64_t bytes_ = 0;
};

}  // namespace penstock::detail
