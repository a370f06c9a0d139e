// Prediction: seconds, waits and memory of a step before it runs.
#pragma once

#include <optional>
#include <vector>

#include "train/parallel/plan/machine_costs.h"
#include "train/parallel/plan/step_shape.h"

namespace penstock::detail {

struct Prediction {
  double step_seconds = 0;
  double bubble = 0;                    // share of all ranks' time in which they wait for their neighbours
  double exposed_communication = 0;     // share of rank 0's time in which it waits for sums
  double load_wait = 0;                 // the same, for its loader
  std::vector<double> rank_bytes = {};  // one entry per rank: its process, at most
};

/// Runs the tasks of some steps, and takes the last ones, when loaders are as far ahead as they can be.
Prediction predict(const PlannedMode& planned, const StepShape& shape, const MachineCosts& costs,
                   const std::vector<ParameterFacts>& parameters);

}  // namespace penstock::detail
