// Predicted step: how long a step of a mode should take, by the simulation of plan-modes with what `single` took.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "train/comm/network_model.h"

namespace penstock {

/// The mean step of rank 0 in milliseconds (each phase the median over the repeats of a row), and what was set.
struct StepParts {
  double load = 0, forward = 0, backward = 0, optimizer = 0;
  double other = 0;  ///< What is left, without communication and bubble.
  double threads = 1, cores = 1;
  bool uses_cores = true;       ///< The step is computed by the cores that all ranks share.
  bool is_emulated = false;     ///< It is a wait.
  double parameter_bytes = 0;   ///< Of the parameters that rank 0 holds.
  double activation_bytes = 0;  ///< Of one micro-batch, the largest that a rank of a pipeline sends to the next one.
  int replicas = 1;             ///< In one rank, as those of `dp`.

  double total() const { return load + forward + backward + optimizer + other; }
};

/// The step of `mode` over `ranks` ranks in milliseconds, from the phases of `single`, and from what was set in `own`,
/// of whose times it uses none. `net`: none where the network is that of this machine, which then counts as infinitely
/// fast. None for a mode, or a key of it, of which too little is known.
///
/// Throws config_error for a mode that is no spec.
std::optional<double> predicted_step_ms(const std::string& mode, int ranks, const StepParts& single,
                                        const StepParts& own, const std::optional<NetworkModel>& net);

/// What the numbers are made of, in sentences.
std::vector<std::string> prediction_notes();

}  // namespace penstock
