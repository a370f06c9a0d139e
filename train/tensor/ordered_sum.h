// Ordered sums: floating-point sums depend on their order, and these have one that is written down.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace penstock::detail {

/// Neighbours first, in the order in which ranks and micro-batches are added, whoever adds them:
///
///     8 tensors    ((0 + 1) + (2 + 3)) + ((4 + 5) + (6 + 7))
///     5            ((0 + 1) + (2 + 3)) + 4
///
/// The sum comes to the first tensor, which is returned; the others are destroyed. Requires one tensor or more.
torch::Tensor pairwise_sum(const std::vector<torch::Tensor>& tensors);

/// The same over the first dimension. `rows` is destroyed.
torch::Tensor pairwise_sum(const torch::Tensor& rows);

/// The sum over the last dimension: its second half is added to the first one until one number is left, as if there
/// were zeros up to a power of two. Whole vectors are added, and by no kernel that chooses an order.
///
///     8 numbers    ((0 + 4) + (2 + 6)) + ((1 + 5) + (3 + 7))
torch::Tensor folded_sum(torch::Tensor numbers);

/// pairwise_sum() of a power of two of tensors, the leaves, in whatever order they come: a sum goes up as soon as its
/// sibling is there. A rank that holds neighbouring leaves, as many as a power of two, sums one complete subtree; its
/// result is one leaf of the tree above. A leaf that never comes counts as zeros: -0 + 0 is 0, wherever the zeros are
/// added.
///
/// Memory: log2(leaves) + 1 tensors where leaves come in their order. The tensors that are put are reused for the sums.
class PairwiseSum {
 public:
  /// Requires a power of two.
  explicit PairwiseSum(int leaf_count);

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

}  // namespace penstock::detail
