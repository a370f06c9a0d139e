// LeafSums: gradients go from autograd into trees.
#include "train/parallel/exact/leaf_sums.h"

#include <utility>

namespace penstock::detail {

LeafSums::LeafSums(std::vector<torch::Tensor> parameters, int leaf_count)
    : parameters_(std::move(parameters)), trees_(parameters_.size(), PairwiseSum(leaf_count)) {}

void LeafSums::reset() {
  for (const auto& parameter : parameters_) parameter.mutable_grad().reset();
}

void LeafSums::take(size_t parameter, int leaf, const torch::Tensor& root) {
  auto gradient = std::exchange(parameters_[parameter].mutable_grad(), {});
  if (!gradient.defined()) return;
  auto& tree = trees_[parameter];
  const int64_t before = tree.bytes();
  tree.put(leaf, std::move(gradient), root);
  bytes_ += tree.bytes() - before;
}

torch::Tensor LeafSums::sum(size_t parameter) {
  bytes_ -= trees_[parameter].bytes();
  return trees_[parameter].take();
}

void LeafSums::write(size_t parameter, torch::Tensor place) {
  at::NoGradGuard no_grad;
  const auto whole = sum(parameter);
  if (!whole.defined())
    place.zero_();
  else if (whole.const_data_ptr() != place.const_data_ptr())
    place.copy_(whole);  // some leaves have not come, or there is one alone
}

}  // namespace penstock::detail
