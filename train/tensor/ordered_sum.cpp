// Ordered sums: additions in place, two by two.
#include "train/tensor/ordered_sum.h"

#include <bit>

namespace penstock::detail {

torch::Tensor pairwise_sum(const std::vector<torch::Tensor>& tensors) {
  for (size_t stride = 1; stride < tensors.size(); stride *= 2)
    for (size_t i = 0; i + stride < tensors.size(); i += 2 * stride) {
      auto sum = tensors[i];
      sum.add_(tensors[i + stride]);
    }
  return tensors.front();
}

torch::Tensor pairwise_sum(const torch::Tensor& rows) {
  at::NoGradGuard no_grad;
  return pairwise_sum(rows.unbind());
}

torch::Tensor folded_sum(torch::Tensor numbers) {
  const int64_t missing =
      static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(numbers.size(-1)))) - numbers.size(-1);
  if (missing > 0) numbers = at::constant_pad_nd(numbers, {0, missing});
  while (numbers.size(-1) > 1) {
    const int64_t half = numbers.size(-1) / 2;
    numbers = numbers.narrow(-1, 0, half) + numbers.narrow(-1, half, half);
  }
  return numbers.squeeze(-1);
}

PairwiseSum::PairwiseSum(int leaf_count) : height_(std::countr_zero(static_cast<unsigned>(leaf_count))) {}

bool PairwiseSum::put(int leaf, torch::Tensor tensor, const torch::Tensor& root) {
  at::NoGradGuard no_grad;
  Node node{0, leaf};
  bytes_ += static_cast<int64_t>(tensor.nbytes());
  for (; node.first < height_; node = {node.first + 1, node.second / 2}) {
    const auto sibling = sums_.extract({node.first, node.second ^ 1});
    if (sibling.empty()) break;
    bytes_ -= static_cast<int64_t>(tensor.nbytes());
    torch::Tensor target = node.first + 1 == height_ && root.defined() ? root : sibling.mapped();
    tensor = at::add_out(target, sibling.mapped(), tensor);
  }
  const bool is_complete = node.first == height_;
  if (is_complete && root.defined()) {
    if (height_ == 0) tensor = root.detach().copy_(tensor);
    bytes_ = 0;
  }
  sums_.emplace(node, std::move(tensor));
  return is_complete;
}

torch::Tensor PairwiseSum::take() {
  at::NoGradGuard no_grad;
  auto sum = sum_of({height_, 0});
  sums_.clear();
  bytes_ = 0;
  return sum;
}

torch::Tensor PairwiseSum::sum_of(const Node& node) {
  if (const auto found = sums_.find(node); found != sums_.end()) return found->second;
  if (node.first == 0) return {};
  auto left = sum_of({node.first - 1, 2 * node.second}), right = sum_of({node.first - 1, 2 * node.second + 1});
  if (left.defined() && right.defined()) return left.add_(right);
  if (!left.defined()) left = std::move(right);
  return left.defined() ? left.add_(0) : left;
}

}  // namespace penstock::detail
