// Block norms: norms of parameters whose bits do not depend on how the parameters are cut (--exact).
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

namespace penstock::detail {

/// Elements. Kernels compute the first elements of a tensor in vectors and the rest one by one, which may be rounded in
/// another way: x + a * y in one operation or in two. With this alignment of parameters and slices, an element is in a
/// vector of its slice if it is in one of its parameter. Vectors have 16 elements at most; kernels take up to 4 at
/// once.
constexpr int64_t kVectorAlignment = 64;

/// The sums of the squares of every kVectorAlignment elements of a dense tensor, in the order of its memory: f64, one
/// dimension. A piece that begins at a multiple of them has those of its place in the whole. Each is a folded_sum().
torch::Tensor block_sums(const torch::Tensor& tensor);
/// How many sums that are.
int64_t block_count(int64_t element_count);

using TensorLists = std::vector<std::vector<torch::Tensor>>;
/// One list of scalars per column, all of one length.
torch::Tensor table_of(const TensorLists& columns);

}  // namespace penstock::detail
