// Where a model is cut into parts.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "train/parallel/strategy/model_part.h"

namespace penstock::detail {

/// Parts that begin at the blocks of `cuts`, and the first one at the beginning; `layer2` means the block of that name,
/// otherwise the first one inside it (`layer2.0`). Throws config_error `<where>: ...` for a name that is no block, and
/// for cuts that are not in the order of the model.
std::vector<BlockRange> cut_at(const Model& model, const std::string& where, const std::vector<std::string>& cuts);

/// What it costs that part number `part` holds these blocks.
using PartCost = std::function<double(size_t part, BlockRange blocks)>;

/// `part_count` parts of which the costliest costs as little as possible, each of one block or more; of several such
/// ways the one with the earliest cuts. Requires 1 <= part_count <= block_count, and costs that do not become less when
/// a part gets more blocks.
std::vector<BlockRange> balanced(size_t block_count, size_t part_count, const PartCost& cost);

/// Numbers that a part has as parameters.
PartCost part_parameters(const Model& model);

/// The sum of the values of a part's blocks. `values`: one entry per block.
PartCost part_sum(const std::vector<double>& values);

}  // namespace penstock::detail
