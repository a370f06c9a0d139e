// What a line says about a run that diverged.
#pragma once

#include <string>

#include "train/options/options.h"

namespace penstock {

/// "the run diverged; expected <expected>, try a lower --lr than 0.1 (earlier checkpoints are as they were)". With
/// --precision f16 a gradient may have overflowed instead: the text names a scale that stays, and a smaller one.
/// Factors of the learning rate above 1 are named before it.
std::string text_of_divergence(const TrainOptions& options, const std::string& expected);

}  // namespace penstock
