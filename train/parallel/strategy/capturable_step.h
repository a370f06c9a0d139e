// CapturableStep: a step as gradients and update, for modes whose first half can be captured as a graph of a device.
#pragma once

#include <torch/types.h>

#include <string>
#include <vector>

#include "train/parallel/strategy/strategy.h"

namespace penstock {

/// What a Strategy may also be. Its step() is then begin_step(), compute_gradients() and, with gradients() after it,
/// update(). compute_gradients() and gradients() do the same operations over the same memory for every batch with as
/// many rows and samples of all ranks.
class CapturableStep {
 public:
  virtual ~CapturableStep() = default;
  /// Why steps cannot be captured all the same, to follow "because "; "" if they can.
  virtual std::string capture_obstacle() const = 0;
  /// Before every step, also where compute_gradients() is replayed: the model has the weights that are trained, as it
  /// may not after an evaluation.
  virtual void begin_step() = 0;
  virtual StepSums compute_gradients(const DeviceBatch& batch) = 0;
  /// Those that compute_gradients() has computed.
  virtual std::vector<torch::Tensor> gradients() = 0;
  virtual void update(const std::vector<torch::Tensor>& gradients) = 0;
};

}  // namespace penstock
