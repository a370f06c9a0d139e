// What the blocks of a model cost, so that it can be cut into parts that cost the same.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "train/comm/comm.h"
#include "train/parallel/pipeline/stage_cuts.h"
#include "train/parallel/strategy/mesh.h"
#include "train/parallel/strategy/strategy.h"

namespace penstock::detail {

/// What the costs of two parts are compared by.
enum class Balance { kParameters, kTime, kMemory };

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
///   - its parameters;
///   - `beside` times its trained parameters: the gradient and the slots of the optimiser count 1 each, or the fraction
///     of which the rank keeps a slice;
///   - the activations of the micro-batches that are alive at once, `alive` for each part.
PartCost part_bytes(const Model& model, const std::vector<BlockCost>& costs, const std::vector<int>& alive,
                    double beside);

/// `costs`: what was measured of each part, "12 ms" or "23.4 MB"; empty if nothing was.
struct MeasuredParts {
  std::vector<BlockRange> ranges;
  std::vector<std::string> costs;
};

/// What a model is cut for.
struct PartUse {
  std::vector<int> alive;     // one entry per part: micro-batches whose activations are alive at once
  int64_t micro_batches = 1;  // that a full batch is cut into, over all copies of the model
  ShardedKinds sharded = {};  // over the copies
  int copies = 1;
};

/// Collective: the model in as many parts as `use.alive` has entries. Requires `balance` to be time or memory.
MeasuredParts measured_parts(const StrategyContext& context, Balance balance, const PartUse& use);

}  // namespace penstock::detail
