// Where a model is cut into parts.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "train/parallel/strategy/model_facts.h"
#include "train/parallel/strategy/step_plan.h"

namespace penstock::detail {

/// Parts that begin at the blocks of `cuts`, and the first one at the beginning; `layer2` means the block of that name,
/// otherwise the first one inside it (`layer2.0`). `blocks`: the names of all. Throws config_error `<where>: ...` for a
/// name that is no block, and for cuts that are not in the order of the model.
std::vector<BlockRange> cut_at(const std::vector<std::string>& blocks, const std::string& where,
                               const std::vector<std::string>& cuts);

/// What it costs that part number `part` holds these blocks.
using PartCost = std::function<double(size_t part, BlockRange blocks)>;

/// `part_count` parts of which the costliest costs as little as possible, each of one block or more; of several such
/// ways the one with the earliest cuts. Requires 1 <= part_count <= block_count, and costs that do not become less when
/// a part gets more blocks.
std::vector<BlockRange> balanced(size_t block_count, size_t part_count, const PartCost& cost);

/// Numbers that a part has as parameters.
PartCost part_parameters(const ModelFacts& model);

/// The sum of the values of a part's blocks. `values`: one entry per block.
PartCost part_sum(const std::vector<double>& values);

/// The plan of a step of this model: with its stages, which balance parameters where nothing else was measured yet.
/// Throws config_error for a model that the plan does not fit.
StepPlan fitted(StepPlan plan, const ModelFacts& model);

}  // namespace penstock::detail
