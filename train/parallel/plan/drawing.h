// Drawing: what the ranks of one copy of the model do when in a step, as text.
#pragma once

#include <string>

#include "train/parallel/strategy/step_plan.h"

namespace penstock::detail {

/// What is drawn, a line per rank, as the drawings in schedules/, and below them what the simulation gives: the bubble,
/// and the most alive activations of each rank. Throws config_error naming --print-schedule for more operations than
/// can be read.
std::string drawing_of(const StepPlan& plan);

/// The same in PyTorch's format, a row per rank; see pipeline/schedule_file.h.
std::string csv_of(const StepPlan& plan);

}  // namespace penstock::detail
