// TreeSum: a sum goes up as soon as its sibling is there.
#include "train/tensor/tree_sum.h"

#include <bit>

namespace penstock::detail {

TreeSum::TreeSum(int leaf_count) : height_(std::countr_zero(static_cast<unsigned>(leaf_count))) {}

bool TreeSum::put(int leaf, torch::Tensor tensor, const torch::Tensor& root) {
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

torch::Tensor TreeSum::take() {
  at::NoGradGuard no_grad;
  auto sum = sum_of({height_, 0});
  sums_.clear();
  bytes_ = 0;
  return sum;
}

torch::Tensor TreeSum::sum_of(const Node& node) {
  if (const auto found = sums_.find(node); found != sums_.end()) return found->second;
  if (node.first == 0) return {};
  auto left = sum_of({node.first - 1, 2 * node.second}), right = sum_of({node.first - 1, 2 * node.second + 1});
  if (left.defined() && right.defined()) return left.add_(right);
  if (!left.defined()) left = std::move(right);
  return left.defined() ? left.add_(0) : left;
}

torch::Tensor tree_sum_of_rows(const torch::Tensor& rows) {
  at::NoGradGuard no_grad;
  TreeSum sum(static_cast<int>(rows.size(0)));
  for (int64_t row = 0; row < rows.size(0); ++row) sum.put(static_cast<int>(row), rows[row]);
  return sum.take();
}

}  // namespace penstock::detail
