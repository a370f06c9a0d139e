// Rate note: what changes where a run goes on with another number of epochs.
#pragma once

#include <cstdint>
#include <string>

#include "train/checkpoint/checkpoint.h"
#include "train/options/options.h"

namespace penstock {

/// A line with both rates where the schedule of options.epochs goes on, after the checkpoint in options.resume, at less
/// than half or more than twice the rate that the run had with the number of epochs in its options.json; otherwise "".
std::string note_of_rate(const TrainOptions& options, const Position& at, int64_t steps_per_epoch);

}  // namespace penstock
