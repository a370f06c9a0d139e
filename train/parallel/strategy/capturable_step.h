// CapturableStep: a step as gradients and update, for modes whose first half can be captured as a graph of a device.
#pragma once

#include <torch/types.h>

#include <string>
#include <vector>

#include "train/parallel/strategy/strategy.h"

namespace penstock {

/// An interface that a Strategy may have besides its own. It divides step() into these calls:
///
///     begin_step();
///     sums = compute_gradients(batch);   // these two lines can be captured once and replayed
///     all = gradients();
///     update(all);
///
/// For every batch with the same number of rows, and of samples over all ranks, compute_gradients() and gradients() run
/// the same operations over the same memory. That is what lets a graph replay them.
class CapturableStep {
 public:
  virtual ~CapturableStep() = default;
  /// Why the steps of this run cannot be captured, as words that follow "because "; "" if they can.
  virtual std::string capture_obstacle() const = 0;
  /// Called before every step, also before one that is replayed. Gives the model the weights that are trained: an
  /// evaluation may have left it with their average.
  virtual void begin_step() = 0;
  virtual StepSums compute_gradients(const DeviceBatch& batch) = 0;
  /// What the last compute_gradients() has computed.
  virtual std::vector<torch::Tensor> gradients() = 0;
  virtual void update(const std::vector<torch::Tensor>& gradients) = 0;
};

}  // namespace penstock
