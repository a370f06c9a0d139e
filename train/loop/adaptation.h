// Adaptation: what of a run follows from what has happened in it: the scale of f16, and the rate on a plateau.
#pragma once

#include <string>

#include "train/checkpoint/checkpoint.h"
#include "train/loop/evaluate.h"
#include "train/options/options.h"
#include "train/parallel/strategy/strategy.h"

namespace penstock {

/// Before the first step: the position has what these options need and nothing else, and the strategy has the scale.
void begin_adaptation(const TrainOptions& options, Strategy& strategy, Position& position);

/// After a step, before the position counts it. All ranks skip the same steps, and so have the same scale. Throws
/// config_error if gradients overflow without a scale.
void adapt_scale(const TrainOptions& options, bool was_skipped, Strategy& strategy, Position& position);

/// After the evaluation of an epoch, which is the same at every rank. Returns a line for people if the rate falls, and
/// "" otherwise.
std::string follow_plateau(const TrainOptions& options, const Evaluation& evaluation, Position& position);

}  // namespace penstock
