// Local steps: ranks that change their parameters alone for some steps, and then meet.
#pragma once

#include <memory>

#include "train/parallel/strategy/gradient_sync.h"
#include "train/parallel/strategy/step_plan.h"
#include "train/parallel/strategy/update.h"

namespace penstock::detail {

/// Sums nothing over ranks. The gradient of rank r of W is W / n times the sum over its rows, n the samples of all
/// ranks: the mean over its rows where all ranks have as many, and otherwise the gradients whose mean over ranks is the
/// gradient of the whole batch, so that every sample has the same weight. Requires gradients that make_local_update()
/// made.
std::unique_ptr<GradientSync> make_local_sync(const SyncContext& context);

/// Local SGD (Stich 2019, "Local SGD converges fast and communicates little") and DiLoCo (Douillard et al. 2023,
/// "DiLoCo: distributed low-communication training of language models", alg. 1). All ranks have the parameters A; each
/// takes H steps of its optimiser alone, which leads rank r to P_r; then they meet:
///
///     D = mean over r of (A - P_r)
///     sgd       A' = A - rate D                                    with rate 1 A' is the mean of P_r
///     nesterov  M' = momentum M + D,  A' = A - rate (D + momentum M')
///
///     time ->    H = 3
///     rank 0     | step | step | step | sum | outer step | step | step | step | sum | ...
///     rank 1     | step | step | step | sum | outer step | step | step | step | sum | ...
///
/// The state of a rank's optimiser stays its own, as in both papers. All ranks sum the same numbers and make the same
/// outer step, so that they have the same bits when they have met. meet() also ends an interval that is shorter than H.
///
/// Memory: none for the mean, whose sums lie where the gradients were; otherwise A, and for Nesterov's M.
/// Deviation: the tensors of slot() are the means over ranks, so that a checkpoint has one state of the optimiser for
/// any other mode; what each rank has is beside it as RankLocalState.
std::unique_ptr<Update> make_local_update(const UpdateContext& context, const LocalSteps& steps);

}  // namespace penstock::detail
