// TreeSum: the sum of tensors in one fixed binary tree, in whatever order they come.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <map>
#include <utility>

namespace penstock::detail {

/// Floating-point sums depend on their order. Here it is fixed by the leaves' numbers alone:
///
///     8 leaves     ((0 + 1) + (2 + 3)) + ((4 + 5) + (6 + 7))
///
/// A rank that holds neighbouring leaves, as many as a power of two, sums one complete subtree; its result is one leaf
/// of the tree above. A leaf that never comes counts as zeros: -0 + 0 is 0, wherever the zeros are added.
///
/// Memory: log2(leaves) + 1 tensors where leaves come in their order. The tensors that are put are reused for the sums.
class TreeSum {
 public:
  /// Requires a power of two.
  explicit TreeSum(int leaf_count);

  /// `leaf` belongs to this from now on. With a `root`, the last addition writes there. Requires that the leaf has not
  /// come before. Returns whether all leaves have.
  bool put(int leaf, torch::Tensor tensor, const torch::Tensor& root = {});
  /// The sum. The next one starts with no leaves. Undefined if no leaf has come.
  torch::Tensor take();
  /// What is held now, without the root's memory.
  int64_t bytes() const { return bytes_; }

 private:
  using Node = std::pair<int, int>;  // level, from 0 at the leaves; number in its level
  torch::Tensor sum_of(const Node& node);

  int height_;
  std::map<Node, torch::Tensor> sums_;  // those whose sibling is still missing
  int64_t bytes_ = 0;
};

/// The sum over the first dimension, as TreeSum has it. `rows` is destroyed. Requires a power of two of them.
torch::Tensor tree_sum_of_rows(const torch::Tensor& rows);

}  // namespace penstock::detail
