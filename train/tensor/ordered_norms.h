// Block norms: norms of parameters whose bits do not depend on how the parameters are cut (--exact).
#pragma once

#include <torch/types.h>

#include <cstdint>

namespace penstock::detail {

/// The sums of the squares of every kVectorAlignment elements of a dense tensor, in the order of its memory: f64, one
/// dimension. A piece that begins at a multiple of them has those of its place in the whole. Each is made of single
/// additions of halves, and of no kernel that chooses an order.
torch::Tensor block_sums(const torch::Tensor& tensor);
/// How many sums that are.
int64_t block_count(int64_t element_count);

/// The sum of all elements of a tensor with one dimension, by halves: the first half plus the second one, until one is
/// left, as if there were zeros up to a power of two.
torch::Tensor sum_by_halves(torch::Tensor numbers);

}  // namespace penstock::detail
