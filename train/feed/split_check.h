// Split check: whether the split that is evaluated means what the one that is trained on does.
#pragma once

#include <string>

#include "train/feed/training_data.h"
#include "train/losses/target.h"

namespace penstock {

/// Throws config_error, which names both folders, if the splits, which may be of two data sets, have different classes,
/// fields or channels, and if the one that is evaluated has not what the loss compares outputs with. Requires that
/// there is such a split.
void check_splits_fit(const TrainingData& data, const std::string& loss, const LossTarget& target);

}  // namespace penstock
