// Block norms: squares, and sums by halves.
#include "train/tensor/ordered_norms.h"

#include <bit>

#include "train/tensor/storage.h"

namespace penstock::detail {
namespace {

torch::Tensor with_zeros(const torch::Tensor& numbers, int64_t count) {
  return count == numbers.numel() ? numbers : at::constant_pad_nd(numbers, {0, count - numbers.numel()});
}

/// The sum of each row, of which each has a power of two of numbers.
torch::Tensor halved_rows(torch::Tensor rows) {
  while (rows.size(1) > 1) {
    const int64_t half = rows.size(1) / 2;
    rows = rows.narrow(1, 0, half) + rows.narrow(1, half, half);
  }
  return rows.flatten();
}

}  // namespace

int64_t block_count(int64_t element_count) { return (element_count + kVectorAlignment - 1) / kVectorAlignment; }

torch::Tensor block_sums(const torch::Tensor& tensor) {
  const auto squares = flattened(tensor.detach()).to(torch::kFloat64).square();  // exact if they were f32
  return halved_rows(with_zeros(squares, block_count(squares.numel()) * kVectorAlignment).view({-1, kVectorAlignment}));
}

torch::Tensor sum_by_halves(torch::Tensor numbers) {
  const auto count = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(numbers.numel())));
  return halved_rows(with_zeros(numbers, count).view({1, -1})).squeeze(0);
}

torch::Tensor table_of(const TensorLists& columns) {
  std::vector<torch::Tensor> stacked;
  for (const auto& column : columns)
    stacked.push_back(column.empty() ? torch::zeros({0}, torch::kFloat64) : at::stack(column));
  return at::stack(stacked, /*dim=*/1);
}

}  // namespace penstock::detail
