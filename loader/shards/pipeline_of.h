// pipeline_of(): the transforms of a data set, normalised as its training split is.
#pragma once

#include <string>

#include "augment/transform.h"
#include "loader/shards/dataset.h"

namespace penstock {

/// Mean and deviation that `normalize` takes where it states none, and whose they are.
struct NormalizeStatistics {
  std::string split;  ///< "train", or the split's own name.
  DataStatistics values;
};

/// Those of the split train wherever the data set has a split of that name beside this one, so that an evaluation is
/// normalised as the training was; otherwise the split's own. A split's own folder that has another name than the split
/// belongs to no data set. Of a data set that was joined, those of all parts together, each as it is here. Throws what
/// reading train's manifest throws.
NormalizeStatistics normalize_statistics(const Dataset& dataset);

/// The pipeline of these transforms for samples of the data set, with normalize_statistics().
Pipeline pipeline_of(const std::string& augment, const Dataset& dataset);

}  // namespace penstock
