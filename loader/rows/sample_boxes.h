// sample_boxes: the boxes of a sample, for transforms that look at them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "augment/transform.h"
#include "loader/shards/dataset.h"

namespace penstock {

/// The number of the field that the transforms look at; nothing for transforms that look at none. Throws config_error
/// where the data set has no such field of boxes.
std::optional<size_t> boxes_field(const Pipeline& pipeline, const Dataset& dataset);

/// The boxes of a sample, in its upright picture.
/// Requires the number of a field of boxes. Throws as Dataset::field() does.
std::vector<Box> boxes_of(const Dataset& dataset, uint64_t index, size_t field);

}  // namespace penstock
