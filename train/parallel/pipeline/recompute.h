// RecomputedForward: runs a forward a second time so that it gives the same bits and leaves no other trace than its
// graph.
#pragma once

#include <torch/types.h>

#include <vector>

#include "train/parallel/strategy/model_part.h"
#include "train/tensor/random_state.h"

namespace penstock::detail {

/// While it lives, forwards draw the random numbers that followed `before`, and change copies of the buffers: BatchNorm
/// has counted the micro-batch already. Its destructor gives both back as they were when it was made.
///
/// Limitation: ranks that are threads of one process draw from the same random numbers of the CPU. What another rank
/// draws meanwhile is missing here, so that a model with dropout may drop other elements in its second forward.
///
/// Requires that the buffers whose values the forward uses are as they were in the first run. BatchNorm uses its
/// running statistics in evaluation mode alone, in which nothing changes them.
class RecomputedForward {
 public:
  RecomputedForward(const RandomState& before, const NamedTensors& buffers, const torch::Device& device);
  ~RecomputedForward();
  RecomputedForward(const RecomputedForward&) = delete;
  RecomputedForward& operator=(const RecomputedForward&) = delete;

 private:
  RandomState now_;
  std::vector<torch::Tensor> buffers_, kept_;  // the model's, and their memory
};

}  // namespace penstock::detail
