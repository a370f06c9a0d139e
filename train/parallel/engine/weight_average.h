// WeightAverage: the mean of the weights of earlier steps, of what one rank holds.
#pragma once

#include "train/parallel/strategy/model_part.h"

namespace penstock::detail {

/// Memory: the parameters and buffers of the part once more, whole also where its parameters are in slices.
/// Thread-safety: the training thread's alone. All members but tensors() and is_shown() are collective where the part
/// has a store.
class WeightAverage {
 public:
  /// Starts as the weights of the part.
  explicit WeightAverage(const ModelPart& part);

  /// average = decay * average + (1 - decay) * weights; whole numbers, such as counters, become those of the part.
  /// `restarts`: the weights then become the average. Requires that it is not shown.
  void update(ModelPart& part, double decay, bool restarts);
  /// Exchanges the average and the weights: the part runs with the average, until the next call.
  void swap(ModelPart& part);
  bool is_shown() const { return is_shown_; }

  /// In the order of the part: its parameters, then its buffers. Those of the average unless it is shown.
  const NamedTensors& tensors() const { return tensors_; }

 private:
  template <class Use>
  void for_each_pair(ModelPart& part, const Use& use);

  NamedTensors tensors_;
  bool is_shown_ = false;
};

}  // namespace penstock::detail
