// Where a model is cut into parts.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "train/parallel/strategy/model_part.h"

namespace penstock::detail {

/// Parts that begin at the stages of `cuts`, and the first one at the beginning; `layer2` means the stage of that name,
/// otherwise the first one inside it (`layer2.0`). Throws config_error `<where>: ...` for a name that is no stage, and
/// for cuts that are not in the order of the model.
std::vector<StageRange> cut_at(const Model& model, const std::string& where, const std::vector<std::string>& cuts);

/// What it costs that part number `part` holds these stages.
using PartCost = std::function<double(size_t part, StageRange stages)>;

/// `part_count` parts of which the costliest costs as little as possible, each of one stage or more; of several such
/// ways the one with the earliest cuts. Requires 1 <= part_count <= stage_count, and costs that do not become less when
/// a part gets more stages.
std::vector<StageRange> balanced(size_t stage_count, size_t part_count, const PartCost& cost);

/// Numbers that a part has as parameters.
PartCost part_parameters(const Model& model);

/// The sum of the values of a part's stages. `values`: one entry per stage.
PartCost part_sum(const std::vector<double>& values);

}  // namespace penstock::detail
