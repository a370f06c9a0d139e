// Memory: what the tensors of one rank take, as measured and by the formula of its mode.
#pragma once

#include <vector>

#include "train/optimizers/optimizer.h"
#include "train/parallel/strategy/gradient_sync.h"
#include "train/parallel/strategy/model_part.h"
#include "train/parallel/strategy/strategy.h"

namespace penstock::detail {

/// One entry for each kind of tensors: what the storages that are alive take, and what the formula of ZeRO gives
/// (Rajbhandari et al. 2020, "ZeRO", fig. 1, with equal widths for all kinds):
///
///     parameters   φ      the bytes of all parameters that this rank holds
///     gradients    φ      here and below without the frozen parameters
///     optimizer    K φ    K slots of the optimiser
///     average      φ      with --average alone; with the frozen parameters. The measured bytes include the average's
///                         buffers, the formula does not
///
///     outer        L φ    L tensors that ranks which take steps alone keep per parameter; without the frozen
///     parameters
///
/// Where `sharded` says that a rank keeps a slice of a kind, the formula is divided by `ranks`. The last two are never
/// sharded.
std::vector<KindMemory> measured_memory(const ModelPart& part, const GradientSync& sync,
                                        const OptimizerState& optimizer, const std::vector<torch::Tensor>& average,
                                        const std::vector<torch::Tensor>& outer, const ShardedKinds& sharded,
                                        int ranks);

}  // namespace penstock::detail
