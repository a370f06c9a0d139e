// Memory: what the tensors of one rank take, as measured and by the formula of its plan.
#pragma once

#include <vector>

#include "train/optimizers/optimizer.h"
#include "train/parallel/strategy/gradient_sync.h"
#include "train/parallel/strategy/model_part.h"
#include "train/parallel/strategy/strategy.h"

namespace penstock::detail {

/// One entry for each kind of tensors that memory_formula() has: what the storages that are alive take, and what the
/// formula gives. The measured bytes of an average include those of its buffers, the formula's do not. `average` and
/// `outer` are empty where none are kept.
std::vector<KindMemory> measured_memory(const StepPlan& plan, const ModelPart& part, const GradientSync& sync,
                                        const OptimizerState& optimizer, const std::vector<torch::Tensor>& average,
                                        const std::vector<torch::Tensor>& outer);

}  // namespace penstock::detail
