// Buckets: gradients in a few flat tensors, so that a collective moves megabytes at a time and can start during
// backward.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "train/comm/comm.h"

namespace penstock::detail {

// The first bucket is small, so that communication starts early in backward, and so is the last one, which no backward
// hides.
constexpr int64_t kOuterBucketBytes = int64_t{1} << 20;
// Large enough to reach the link's bandwidth (Li et al. 2020, sec. 3.2.3).
constexpr int64_t kBucketBytes = int64_t{25} << 20;

/// Indices of the tensors of each bucket, in reverse order: backward completes the last layers' gradients first. A
/// bucket is closed by the tensor with which it reaches its limit (so it may exceed it, and a tensor is never cut). The
/// algorithm of PyTorch's compute_bucket_assignment_by_size for one dtype and device, but for the last bucket: what is
/// more than `outer_limit` in it goes into one of its own before it, unless the first tensor is larger than that.
std::vector<std::vector<size_t>> assign_buckets(const std::vector<int64_t>& tensor_bytes,
                                                int64_t outer_limit = kOuterBucketBytes, int64_t limit = kBucketBytes);

/// What each tensor takes.
std::vector<int64_t> bytes_of(const std::vector<torch::Tensor>& tensors);

/// The flat gradient of some parameters. Memory: as much as the parameters.
struct Bucket {
  torch::Tensor flat;           // one dimension, zeros at first
  std::vector<size_t> members;  // indices of parameters, in the order in which they lie
};

/// Makes every parameter's gradient a view into the bucket that holds it, with the parameter's strides, so that
/// autograd accumulates in place. Collective: `comm` gives the memory. Requires parameters of one dtype and device,
/// each dense.
std::vector<Bucket> bucket_gradients(const std::vector<torch::Tensor>& parameters,
                                     const std::vector<std::vector<size_t>>& assignment, Comm& comm);

}  // namespace penstock::detail
