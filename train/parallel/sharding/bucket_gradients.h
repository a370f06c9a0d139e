// BucketGradients: where gradients go that no rank keeps whole.
#pragma once

#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace penstock::detail {

/// Thread-safety: that of its caller.
class BucketGradients {
 public:
  virtual ~BucketGradients() = default;
  /// Before the first backward of a step: no parameter has a gradient from now on.
  virtual void reset() = 0;
  /// A backward has computed all gradients of this bucket: takes them away from the parameters. A parameter without a
  /// gradient counts as zeros.
  virtual void start(size_t bucket) = 0;
  /// After the last work of a step was waited for. Each bucket's `gradient` then has this rank's slice of the sums.
  virtual void finish() {}
  /// All gradients that are alive beside those of the parameters.
  virtual std::vector<torch::Tensor> buffers() const = 0;
  /// The most bytes that all gradients took when a bucket started.
  virtual int64_t peak_bytes() const = 0;
};

}  // namespace penstock::detail
