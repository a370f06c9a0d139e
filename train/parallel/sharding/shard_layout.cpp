// Slices: where each parameter lies in its bucket, and what of it is this rank's.
#include "train/parallel/sharding/shard_layout.h"

#include <algorithm>

#include "train/tensor/storage.h"

namespace penstock::detail {
namespace {

int64_t round_up(int64_t count, int64_t multiple) { return (count + multiple - 1) / multiple * multiple; }

}  // namespace

torch::Tensor slice_of(const torch::Tensor& flat, const Comm& comm) {
  const int64_t count = flat.numel() / comm.world_size();
  return flat.narrow(0, comm.rank() * count, count);
}

std::vector<int64_t> offsets_of(const std::vector<torch::Tensor>& parameters, const std::vector<size_t>& members,
                                int64_t alignment) {
  std::vector<int64_t> offsets{0};
  for (const size_t i : members) offsets.push_back(round_up(offsets.back() + parameters[i].numel(), alignment));
  return offsets;
}

std::vector<ShardedBucket> slice_parameters(const std::vector<torch::Tensor>& parameters,
                                            const std::vector<std::vector<size_t>>& assignment, Comm& comm,
                                            int64_t alignment, bool stay_whole) {
  at::NoGradGuard no_grad;
  std::vector<ShardedBucket> buckets;
  for (const auto& members : assignment) {
    auto offsets = offsets_of(parameters, members, alignment);
    const int64_t count = round_up(offsets.back(), comm.world_size() * alignment);
    const auto options = parameters[members.front()].options().requires_grad(false);
    const auto whole = stay_whole ? comm.allocate(count, options) : torch::zeros({count}, options);
    offsets.pop_back();
    for (size_t k = 0; k < members.size(); ++k) {
      auto parameter = parameters[members[k]];
      if (parameter.storage().nbytes() > 0)
        whole.narrow(0, offsets[k], parameter.numel()).copy_(flattened(parameter.detach()));
      parameter.set_data(whole.as_strided(parameter.sizes(), parameter.strides(), offsets[k]));
    }
    buckets.push_back(
        {.members = members, .offsets = std::move(offsets), .whole = whole, .slice = slice_of(whole, comm)});
  }
  return buckets;
}

std::vector<std::vector<size_t>> members_of(const std::vector<ShardedBucket>& buckets) {
  std::vector<std::vector<size_t>> members;
  for (const auto& bucket : buckets) members.push_back(bucket.members);
  return members;
}

std::vector<Piece> pieces_of(const std::vector<ShardedBucket>& buckets, const std::vector<torch::Tensor>& parameters,
                             int rank) {
  std::vector<Piece> pieces;
  for (size_t bucket = 0; bucket < buckets.size(); ++bucket) {
    const int64_t slice = buckets[bucket].slice.numel();
    const int64_t slice_begin = rank * slice, slice_end = slice_begin + slice;
    for (size_t k = 0; k < buckets[bucket].members.size(); ++k) {
      const size_t i = buckets[bucket].members[k];
      const int64_t offset = buckets[bucket].offsets[k], count = parameters[i].numel();
      const int64_t begin = std::max(offset, slice_begin), end = std::min(offset + count, slice_end);
      if (begin < end) pieces.push_back({i, bucket, begin - offset, end - begin, begin - slice_begin});
    }
  }
  return pieces;
}

}  // namespace penstock::detail
