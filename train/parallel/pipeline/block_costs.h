// What the blocks of a model cost, so that it can be cut into parts that cost the same.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "train/comm/comm.h"
#include "train/parallel/strategy/memory_formula.h"
#include "train/parallel/strategy/stage_cuts.h"
#include "train/parallel/strategy/strategy.h"

namespace penstock::detail {

/// parameters, time or memory. Throws config_error `<where>: unknown balance ...`.
Balance balance_named(const std::string& where, const std::string& name);

/// What one block costs for one micro-batch.
struct BlockCost {
  double ms = 0;  ///< Forward and backward, the median of three means.
  /// What forward allocates and does not give back: all that backward needs and that was not there before, and the
  /// output. Not the input, which is the output of the block before it, and no parameters.
  double activation_bytes = 0;
};

/// Runs each block on micro-batches of random numbers with the sizes `input_sizes`, N x C x H x W: one micro-batch to
/// count the bytes, then three times `micro_batches` of them to take the time. One block at a time is on `device`, so
/// that no device needs memory for the whole model. Leaves the weights, BatchNorm's statistics, the gradients and the
/// state of the random generators as they were. A block before which nothing is trained, such as the first one,
/// computes no gradient of its input. `on_cost` is called with the cost of each block as soon as it is known.
std::vector<BlockCost> measure_blocks(
    Model& model, const std::vector<int64_t>& input_sizes, int micro_batches, const torch::Device& device,
    const std::function<void(const BlockCost&)>& on_cost = [](const BlockCost&) {});

/// Collective: rank 0 measures while the others wait, and all of them get its numbers, so that they cut at the same
/// places.
std::vector<BlockCost> agreed_block_costs(Comm& comm, Model& model, const std::vector<int64_t>& input_sizes,
                                          int micro_batches, const torch::Device& device);

/// Milliseconds of a part, per micro-batch.
PartCost part_ms(const std::vector<BlockCost>& costs);

/// Bytes of a part, as the sum of
///   - what is kept of `kinds` of tensors;
///   - the activations of the micro-batches that are alive at once, `alive` for each part.
PartCost part_bytes(const ModelFacts& model, const std::vector<BlockCost>& costs, const std::vector<int>& alive,
                    const std::vector<KindFormula>& kinds);

/// By the balance of the plan, which is time or memory. `slot_count`: of the optimiser.
PartCost stage_cost(const StepPlan& plan, const ModelFacts& model, const std::vector<BlockCost>& costs, int slot_count);

/// The plan with other stages, and what was measured of each, "12 ms" or "23.4 MB"; empty if nothing was.
struct MeasuredPlan {
  StepPlan plan;
  std::vector<std::string> costs = {};
};

/// Collective: with Balance::kTime or kMemory the stages of a fitted plan are those that the costs of blocks give,
/// which are measured now. Otherwise the plan is as it was.
MeasuredPlan measured(const StrategyContext& context, StepPlan plan);

}  // namespace penstock::detail
