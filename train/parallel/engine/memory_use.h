// Memory: what the tensors of one rank take, as measured and by the formula of its mode.
#pragma once

#include <vector>

#include "train/optimizers/optimizer.h"
#include "train/parallel/strategy/gradient_sync.h"
#include "train/parallel/strategy/model_part.h"
#include "train/parallel/strategy/strategy.h"

namespace penstock::detail {

/// Parameters, gradients and the optimiser's state: the storages that are alive, beside φ, φ and K φ, each divided by
/// the `ranks` where it is sliced (Rajbhandari et al. 2020, "ZeRO", fig. 1, with equal widths for all three). φ: bytes
/// of this rank's parameters; of gradients and state without those that are frozen. K: the optimiser's slots. With
/// --average also its tensors, whose buffers are not in its formula φ; it is never sliced.
std::vector<KindMemory> measured_memory(const ModelPart& part, const GradientSync& sync,
                                        const OptimizerState& optimizer, const std::vector<torch::Tensor>& average,
                                        const ShardedKinds& sliced, int ranks);

}  // namespace penstock::detail
