// StepTaps: sees the tensors of a step where an operation has ended.
#pragma once

#include <cstdint>

#include "train/parallel/strategy/update.h"
#include "train/tensor/named_tensors.h"

namespace penstock::detail {

/// For verification (train/verify). Outputs of blocks and their gradients need no call: Model::wrap_blocks() and
/// autograd's hooks see them. With taps the gradients of weights are made micro-batch by micro-batch, and
/// WeightGradients joins none. Without taps a step pays for one comparison per operation.
///
/// Thread-safety: the training thread's; hooks of backward may run on autograd's.
class StepTaps {
 public:
  virtual ~StepTaps() = default;
  /// Around the second half of a backward, which adds the gradients of these rows to those of the parameters.
  virtual void before_weight_gradient(uint64_t first_position, int64_t row_count) = 0;
  virtual void after_weight_gradient() = 0;
  /// When the gradients by which this rank updates are there, summed over all ranks.
  virtual void after_sum(const NamedTensors& trained, Update& update) = 0;
  /// When this rank has changed what it changes.
  virtual void after_update(const NamedTensors& trained, Update& update) = 0;
  /// When every rank has the new values of what it holds.
  virtual void after_share(const NamedTensors& trained, const NamedTensors& buffers) = 0;
};

}  // namespace penstock::detail
