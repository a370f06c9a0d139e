// Slices: where each parameter lies in its bucket, and what of it is this rank's.
#include "train/strategies/slices.h"

#include <algorithm>

namespace penstock::detail {

torch::Tensor flattened(const torch::Tensor& tensor) { return tensor.as_strided({tensor.numel()}, {1}); }

torch::Tensor slice_of(const torch::Tensor& flat, const Comm& comm) {
  const int64_t count = flat.numel() / comm.world_size();
  return flat.narrow(0, comm.rank() * count, count);
}

std::vector<SlicedBucket> slice_parameters(const std::vector<torch::Tensor>& parameters,
                                           const std::vector<std::vector<size_t>>& assignment, const Comm& comm) {
  at::NoGradGuard no_grad;
  std::vector<SlicedBucket> buckets;
  for (const auto& members : assignment) {
    int64_t element_count = 0;
    for (const size_t i : members) element_count += parameters[i].numel();
    const int64_t ranks = comm.world_size(), slice = (element_count + ranks - 1) / ranks;
    const auto whole = torch::zeros({slice * ranks}, parameters[members.front()].options().requires_grad(false));
    int64_t offset = 0;
    for (const size_t i : members) {
      auto parameter = parameters[i];
      whole.narrow(0, offset, parameter.numel()).copy_(flattened(parameter.detach()));
      parameter.set_data(whole.as_strided(parameter.sizes(), parameter.strides(), offset));
      offset += parameter.numel();
    }
    buckets.push_back({.members = members, .whole = whole, .slice = slice_of(whole, comm)});
  }
  return buckets;
}

std::vector<Piece> pieces_of(const std::vector<SlicedBucket>& buckets, const std::vector<torch::Tensor>& parameters,
                             int rank) {
  std::vector<Piece> pieces;
  for (size_t bucket = 0; bucket < buckets.size(); ++bucket) {
    const int64_t slice = buckets[bucket].slice.numel();
    const int64_t slice_begin = rank * slice, slice_end = slice_begin + slice;
    int64_t offset = 0;
    for (const size_t i : buckets[bucket].members) {
      const int64_t count = parameters[i].numel();
      const int64_t begin = std::max(offset, slice_begin), end = std::min(offset + count, slice_end);
      if (begin < end) pieces.push_back({i, bucket, begin - offset, end - begin, begin - slice_begin});
      offset += count;
    }
  }
  return pieces;
}

}  // namespace penstock::detail
