// GradientScatter: the gradients of a bucket go where they are summed, and their memory is given back.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "train/strategies/slices.h"
#include "train/strategies/started_works.h"

namespace penstock::detail {

/// Thread-safety: that of its caller.
class GradientScatter {
 public:
  /// Requires that `buckets` have their `gradient` and name `parameters` by their indices. `works` outlives this.
  GradientScatter(std::vector<torch::Tensor> parameters, std::vector<SlicedBucket> buckets, Comm& comm,
                  StartedWorks& works);
  /// The members of this bucket have no gradients from now on; the sum over the ranks is on its way to the bucket's
  /// `gradient`. A parameter without a gradient counts as zeros. Memory: the flat bucket, until its work was waited
  /// for.
  void start(size_t bucket);
  /// No parameter has a gradient from now on.
  void reset();

  /// All gradients that are alive beside those of the parameters.
  std::vector<torch::Tensor> buffers() const;
  /// The most bytes that all gradients took when a bucket started.
  int64_t peak_bytes() const { return peak_bytes_; }

 private:
  std::vector<torch::Tensor> gradients() const;

  std::vector<torch::Tensor> parameters_;
  std::vector<SlicedBucket> buckets_;  // they share their tensors with those of the update
  Comm& comm_;
  StartedWorks& works_;
  int64_t peak_bytes_ = 0;
};

}  // namespace penstock::detail
