// Block norms: squares, and their sums.
#include "train/tensor/ordered_norms.h"

#include "train/tensor/ordered_sum.h"
#include "train/tensor/storage.h"

namespace penstock::detail {

int64_t block_count(int64_t element_count) { return (element_count + kVectorAlignment - 1) / kVectorAlignment; }

torch::Tensor block_sums(const torch::Tensor& tensor) {
  const auto squares = flattened(tensor.detach()).to(torch::kFloat64).square();  // exact if they were f32
  const int64_t missing = block_count(squares.numel()) * kVectorAlignment - squares.numel();
  return folded_sum((missing == 0 ? squares : at::constant_pad_nd(squares, {0, missing})).view({-1, kVectorAlignment}));
}

torch::Tensor table_of(const TensorLists& columns) {
  std::vector<torch::Tensor> stacked;
  for (const auto& column : columns)
    stacked.push_back(column.empty() ? torch::zeros({0}, torch::kFloat64) : at::stack(column));
  return at::stack(stacked, /*dim=*/1);
}

}  // namespace penstock::detail
