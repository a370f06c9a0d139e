// Where a model is cut into parts.
#pragma once

#include <string>
#include <vector>

#include "train/strategies/model_part.h"

namespace penstock::detail {

/// Parts that begin at the stages of `cuts`, and the first one at the beginning; `layer2` means the stage of that name,
/// otherwise the first one inside it (`layer2.0`). Throws config_error `<where>: ...` for a name that is no stage, and
/// for cuts that are not in the order of the model.
std::vector<StageRange> cut_at(const Model& model, const std::string& where, const std::vector<std::string>& cuts);

/// `part_count` parts of which the heaviest is as light as possible, each of one stage or more; of several such ways
/// the one with the earliest cuts. `weights`: one entry per stage. Requires 1 <= part_count <= weights.size().
std::vector<StageRange> balanced(const std::vector<double>& weights, size_t part_count);

/// Numbers that a stage has as parameters; one entry per stage.
std::vector<double> parameters_by_stage(const Model& model);

}  // namespace penstock::detail
