// Shard layout: parameters in flat buckets, of which every rank has an equal slice (Rajbhandari et al. 2020, "ZeRO",
// sec. 5).
//
// Lives here: ZeRO: which rank keeps which slice of the optimiser's state, of the gradients and of the parameters,
// and the update of slices.
// Not here: sums of whole gradients (sync). The mode `zero` that chooses among these is modes/zero.cpp.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "train/comm/comm.h"

namespace penstock::detail {

struct ShardedBucket {
  std::vector<size_t> members;   // indices of parameters, in the order in which they lie
  std::vector<int64_t> offsets;  // one entry per member: where it begins in `whole`
  torch::Tensor whole;           // one dimension, padded with zeros to a multiple of the ranks
  torch::Tensor slice;           // this rank's part of it: a view, or a tensor of its own
  torch::Tensor gradient = {};   // this rank's part of the summed gradients; undefined where parameters have them whole
};

/// Where each member begins, and where the last one ends, if each begins at a multiple of `alignment` elements.
std::vector<int64_t> offsets_of(const std::vector<torch::Tensor>& parameters, const std::vector<size_t>& members,
                                int64_t alignment = 1);

/// Moves the parameters into flat buckets. From now on each parameter is a view into its bucket, with the strides that
/// it had. `assignment`: the indices of the parameters of each bucket. A parameter without memory becomes zeros.
/// Parameters and slices begin at multiples of `alignment` elements. With `stay_whole` the call is collective, because
/// `comm` gives the memory. Requires dense parameters, of one dtype and device in each bucket.
std::vector<ShardedBucket> slice_parameters(const std::vector<torch::Tensor>& parameters,
                                            const std::vector<std::vector<size_t>>& assignment, Comm& comm,
                                            int64_t alignment = 1, bool stay_whole = true);

/// The members of each bucket.
std::vector<std::vector<size_t>> members_of(const std::vector<ShardedBucket>& buckets);

/// This rank's slice of a bucket's flat tensor.
torch::Tensor slice_of(const torch::Tensor& flat, const Comm& comm);

/// The elements of one parameter that lie in this rank's slice of a bucket.
struct Piece {
  size_t parameter, bucket;
  int64_t first, count;  // elements of the parameter, in the order of its memory
  int64_t slice_offset;  // in this rank's slice of the bucket
};

/// The pieces of this rank, bucket by bucket.
std::vector<Piece> pieces_of(const std::vector<ShardedBucket>& buckets, const std::vector<torch::Tensor>& parameters,
                             int rank);

}  // namespace penstock::detail
