// WeightAverage: the mean of the weights of earlier steps, of what one rank holds.
#pragma once

#include "train/parallel/strategy/model_part.h"

namespace penstock::detail {

/// Memory: the parameters and buffers of the part once more, whole also where its parameters are in slices; none where
/// it is not kept. Thread-safety: the training thread's alone. update() and show() are collective where the part has a
/// store.
class WeightAverage {
 public:
  /// Starts as the weights of the part, which outlives this. Without `is_kept` it has no tensors, and show() does
  /// nothing.
  WeightAverage(ModelPart& part, bool is_kept);

  /// average = decay * average + (1 - decay) * weights; whole numbers, such as counters, become those of the part.
  /// `restarts`: the weights then become the average. Throws bug_error if it is not kept.
  void update(double decay, bool restarts);
  /// Whether the part runs with the average, as an evaluation wants it, or with the weights that are trained: they
  /// change places.
  void show(bool on);

  bool is_kept() const { return is_kept_; }
  /// In the order of the part: its parameters, then its buffers. Those of the average unless it is shown.
  const NamedTensors& tensors() const { return tensors_; }

 private:
  template <class Use>
  void for_each_pair(const Use& use);

  ModelPart& part_;
  bool is_kept_, is_shown_ = false;
  NamedTensors tensors_;
};

}  // namespace penstock::detail
