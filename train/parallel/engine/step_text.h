// Step text: how a plan divides ranks and the model, for people.
#pragma once

#include <string>

#include "train/parallel/pipeline/block_costs.h"

namespace penstock::detail {

/// As Strategy::text(), on this device. Requires a fitted plan.
std::string step_text(const MeasuredPlan& measured, const Model& model, const torch::Device& device);

/// As Strategy::predicted_bubble().
double bubble_of(const StepPlan& plan);

}  // namespace penstock::detail
